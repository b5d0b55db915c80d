// Time as actors see it. An actor asks its own system's clock and nothing else, so that a whole job can run
// on virtual time; the production clock below keeps its timeouts on the loop and may be called from any
// thread.
#pragma once

#include <caf/actor_clock.hpp>
#include <caf/detail/simple_actor_clock.hpp>

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>

namespace farandole {

/// A point on the actors' clock. Decisions get one as an argument; they never ask for it.
using instant = caf::actor_clock::time_point;

/// The time, for an actor: `now(self)`.
template <class Self>
instant now(Self* self) {
  return self->clock().now();
}

/// Timeouts and delayed messages, delivered by fire(). `wake(t)` is called (from any thread) when the
/// earliest one became earlier than what was last asked for.
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

  /// On the loop: delivers what is due and asks to be woken for the next.
  void fire();

private:
  struct schedule final : caf::detail::simple_actor_clock {
    std::optional<time_point> next() const;
    void deliver_due() { trigger_expired_timeouts(); }
  };
  template <class Change>
  void change(Change&& apply);

  std::function<void(time_point)> wake_;
  // Recursive: delivering may drop the last reference to an actor, whose end cancels its timeouts.
  std::recursive_mutex guard_;
  schedule schedule_;
  time_point armed_ = time_point::max();
};

} // namespace farandole
