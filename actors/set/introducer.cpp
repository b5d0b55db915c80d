#include "actors/set/introducer.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace farandole {

envelope_actor::behavior_type introducer_state::start(introducer_setup how) {
  setup_ = std::move(how);
  missing_ = setup_.ranks.size();
  gathered_.resize(missing_);
  return {[this](const envelope& message) { take(message); }};
}

void introducer_state::take(const envelope& message) {
  if (message.generation() != setup_.self.generation || message.set() != setup_.self.set)
    return;
  auto blame = [&](std::string reason) {
    self_->send(setup_.watcher, member_fault{message.source(), setup_.self.set, std::move(reason)});
  };
  auto one = decode_introduction(message);
  if (!one)
    return blame(one.error().text);
  auto place = std::find(setup_.ranks.begin(), setup_.ranks.end(), message.source());
  if (place == setup_.ranks.end() || one->rank != message.source())
    return blame("it introduced itself as rank " + std::to_string(one->rank) +
                 " in a process set where that is not its place");
  auto& seat = gathered_[static_cast<std::size_t>(place - setup_.ranks.begin())];
  if (seat)
    return blame("it introduced itself twice");
  seat = std::move(*one);
  if (--missing_ == 0)
    tell_all();
}

void introducer_state::tell_all() {
  introductions all;
  for (auto& each : gathered_)
    all.members.push_back(*each);
  self_->send(setup_.post, encode(setup_.self, all));
}

envelope_actor::behavior_type introducer(envelope_actor::stateful_pointer<introducer_state> self,
                                         introducer_setup how) {
  return self->state.start(std::move(how));
}

} // namespace farandole
