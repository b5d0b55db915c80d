#include "actors/process_set/address_exchange.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace farandole {

envelope_actor::behavior_type address_exchange_state::start(address_exchange_setup setup) {
  setup_ = std::move(setup);
  missing_ = setup_.ranks.size();
  gathered_.resize(missing_);
  return {[this](const envelope& message) { take(message); }};
}

void address_exchange_state::take(const envelope& message) {
  if (message.generation() != setup_.self.generation || message.set() != setup_.self.set)
    return;
  auto blame = [&](std::string reason) {
    self_->send(setup_.watcher, member_fault{message.source(), setup_.self.set, std::move(reason)});
  };
  auto addresses = decode_path_addresses(message);
  if (!addresses)
    return blame(addresses.error().text);
  auto position = std::find(setup_.ranks.begin(), setup_.ranks.end(), message.source());
  if (position == setup_.ranks.end() || addresses->rank != message.source())
    return blame("it introduced itself as rank " + std::to_string(addresses->rank) +
                 " in a process set where that is not its place");
  auto& taken_slot = gathered_[static_cast<std::size_t>(position - setup_.ranks.begin())];
  if (taken_slot)
    return blame("it introduced itself twice");
  taken_slot = std::move(*addresses);
  if (--missing_ == 0)
    tell_all();
}

void address_exchange_state::tell_all() {
  member_path_addresses all;
  for (auto& addresses : gathered_)
    all.members.push_back(*addresses);
  self_->send(setup_.router, encode(setup_.self, all));
}

envelope_actor::behavior_type address_exchange(envelope_actor::stateful_pointer<address_exchange_state> self,
                                               address_exchange_setup setup) {
  return self->state.start(std::move(setup));
}

} // namespace farandole
