// CAF asks its scheduler to run an actor that has mail; this one hands every actor to the system's one loop.
// It starts no thread of its own, not even for CAF's printer.
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

/// What stands in for CAF's printer, which would cost a thread: text sent to `caf::aout` is dropped. Log with
/// kit/log.hpp.
caf::actor make_silent_printer(caf::actor_system& system, caf::execution_unit* context);

} // namespace farandole
