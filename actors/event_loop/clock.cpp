#include "actors/event_loop/clock.hpp"

#include <caf/all.hpp>

namespace farandole {

std::optional<loop_clock::time_point> loop_clock::schedule::next() const {
  if (schedule_.empty())
    return std::nullopt;
  return schedule_.begin()->first;
}

template <class Change>
void loop_clock::change(Change&& apply) {
  std::lock_guard lock{mutex_};
  apply(schedule_);
  if (auto next = schedule_.next(); next && *next < armed_) {
    armed_ = *next;
    wake_(*next);
  }
}

void loop_clock::fire() {
  std::lock_guard lock{mutex_};
  schedule_.deliver_due();
  // The timer is one-shot and has just expired. Resetting armed_ makes change() arm it for the next timeout, even
  // if an actor armed the timer during delivery.
  armed_ = time_point::max();
  change([](schedule&) {});
}

void loop_clock::set_ordinary_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type,
                                      std::uint64_t id) {
  change([&](schedule& s) { s.set_ordinary_timeout(t, self, type, id); });
}

void loop_clock::set_multi_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type,
                                   std::uint64_t id) {
  change([&](schedule& s) { s.set_multi_timeout(t, self, type, id); });
}

void loop_clock::set_request_timeout(time_point t, caf::abstract_actor* self, caf::message_id id) {
  change([&](schedule& s) { s.set_request_timeout(t, self, id); });
}

void loop_clock::cancel_ordinary_timeout(caf::abstract_actor* self, caf::atom_value type) {
  change([&](schedule& s) { s.cancel_ordinary_timeout(self, type); });
}

void loop_clock::cancel_request_timeout(caf::abstract_actor* self, caf::message_id id) {
  change([&](schedule& s) { s.cancel_request_timeout(self, id); });
}

void loop_clock::cancel_timeouts(caf::abstract_actor* self) {
  change([&](schedule& s) { s.cancel_timeouts(self); });
}

void loop_clock::schedule_message(time_point t, caf::strong_actor_ptr receiver,
                                  caf::mailbox_element_ptr content) {
  change([&](schedule& s) { s.schedule_message(t, std::move(receiver), std::move(content)); });
}

void loop_clock::schedule_message(time_point t, caf::group target, caf::strong_actor_ptr sender,
                                  caf::message content) {
  change(
      [&](schedule& s) { s.schedule_message(t, std::move(target), std::move(sender), std::move(content)); });
}

void loop_clock::cancel_all() {
  change([](schedule& s) { s.cancel_all(); });
}

} // namespace farandole
