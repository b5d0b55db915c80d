// The CAF scheduler of this library. CAF asks its scheduler to run an actor that has messages; this one passes every
// actor to the event loop of the system. It starts no thread of its own, not even for CAF's printer.
#pragma once

#include <caf/all.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

#include "actors/event_loop/clock.hpp"

namespace farandole {

class loop_scheduler final : public caf::scheduler::abstract_coordinator {
public:
  explicit loop_scheduler(caf::actor_system& system);
  static caf::actor_system::module* make(caf::actor_system& system, caf::detail::type_list<>) {
    return new loop_scheduler(system);
  }

  void enqueue(caf::resumable* job) override;
  bool detaches_utility_actors() const override { return false; }
  void start() override;
  void stop() override;
  caf::actor_clock& clock() noexcept override { return clock_; }

private:
  loop_clock clock_;
};

/// Replaces CAF's printer, which would need a thread. Text sent to `caf::aout` is dropped; use log.hpp instead.
caf::actor make_silent_printer(caf::actor_system& system, caf::execution_unit* context);

} // namespace farandole
