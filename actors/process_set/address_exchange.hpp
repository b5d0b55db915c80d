// The address exchange: collects the path addresses of a process set's members and, once it has all of them, sends
// them to every member. One for each set, on the leader, which need not be a member.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "actors/event_loop/envelope_actor.hpp"
#include "actors/interfaces/member_watcher.hpp"
#include "messages/wire/membership.hpp"

namespace farandole {

struct address_exchange_setup {
  farandole::address self;
  std::vector<std::int32_t> ranks; ///< global, of all members of the set
  envelope_actor router;
  member_watcher_actor watcher; ///< is told of members that break the protocol
};

class address_exchange_state {
public:
  explicit address_exchange_state(envelope_actor::pointer owner) : self_(owner) {}
  envelope_actor::behavior_type start(address_exchange_setup setup);

  static inline const char* name = "address_exchange";

private:
  void take(const envelope& message);
  void tell_all();

  envelope_actor::pointer self_;
  address_exchange_setup setup_;
  std::vector<std::optional<path_addresses>> gathered_; ///< by position in the set
  std::size_t missing_ = 0;
};

/// Messages of another generation or set are ignored, as by the negotiator.
envelope_actor::behavior_type address_exchange(envelope_actor::stateful_pointer<address_exchange_state> self,
                                               address_exchange_setup setup);

} // namespace farandole
