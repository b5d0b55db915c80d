// The first messages between members. They prove that the connections work in both directions, and that both
// ends agree on the generation, the set and the ranks.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "collectives/transport/p2p/departure_protocol.hpp"
#include "collectives/transport/p2p/messenger.hpp"

namespace farandole {

/// Owns the memory of its messages. If exchange() fails, it must live until the messenger has closed.
class peer_greeting {
public:
  peer_greeting(std::uint64_t generation, std::uint32_t set) : generation_(generation), set_(set) {}

  /// Sends a greeting to all other members, and receives and checks the greeting of each. `names` gives their
  /// names for errors. May be called repeatedly.
  error exchange(messenger& carrier, const departure_protocol& names, const deadline_and_abort& deadline);

private:
  using words = std::array<std::uint64_t, 4>;
  words of(const messenger& carrier, std::int32_t member) const;

  const std::uint64_t generation_;
  const std::uint32_t set_;
  words own_{};
  std::vector<words> heard_; ///< by rank
  message_ticket ticket_;
};

} // namespace farandole
