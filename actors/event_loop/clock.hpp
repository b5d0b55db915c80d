// The clock of the actors. An actor reads the time only from the clock of its actor system, so that a whole job can
// run on virtual time in the simulation. The production clock below fires its timeouts on the event loop. Its methods
// may be called from any thread.
#pragma once

#include <caf/actor_clock.hpp>
#include <caf/detail/simple_actor_clock.hpp>

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>

namespace farandole {

/// A point in time of the actors' clock. Decision classes receive the current time as an argument; they never read a
/// clock.
using instant = caf::actor_clock::time_point;

/// The current time of the actor's clock: `now(self)`.
template <class Self>
instant now(Self* self) {
  return self->clock().now();
}

/// Holds timeouts and delayed messages; fire() delivers them. `wake(t)` is called, from any thread, when the earliest
/// timeout becomes earlier than the time of the last call.
class loop_clock final : public caf::actor_clock {
public:
  explicit loop_clock(std::function<void(time_point)> wake) : wake_(std::move(wake)) {}

  void set_ordinary_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type,
                            std::uint64_t id) override;
  void set_multi_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type,
                         std::uint64_t id) override;
  void set_request_timeout(time_point t, caf::abstract_actor* self, caf::message_id id) override;
  void cancel_ordinary_timeout(caf::abstract_actor* self, caf::atom_value type) override;
  void cancel_request_timeout(caf::abstract_actor* self, caf::message_id id) override;
  void cancel_timeouts(caf::abstract_actor* self) override;
  void schedule_message(time_point t, caf::strong_actor_ptr receiver,
                        caf::mailbox_element_ptr content) override;
  void schedule_message(time_point t, caf::group target, caf::strong_actor_ptr sender,
                        caf::message content) override;
  void cancel_all() override;

  /// Delivers all timeouts that are due and arms the timer for the next one. Runs on the loop's thread.
  void fire();

private:
  struct schedule final : caf::detail::simple_actor_clock {
    std::optional<time_point> next() const;
    void deliver_due() { trigger_expired_timeouts(); }
  };
  template <class Change>
  void change(Change&& apply);

  std::function<void(time_point)> wake_;
  // Recursive, because delivery may drop the last reference to an actor, whose destruction cancels its timeouts.
  std::recursive_mutex mutex_;
  schedule schedule_;
  time_point armed_ = time_point::max();
};

} // namespace farandole
