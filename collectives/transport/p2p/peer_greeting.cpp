#include "collectives/transport/p2p/peer_greeting.hpp"

#include <span>

namespace farandole {

peer_greeting::words peer_greeting::of(const messenger& carrier, std::int32_t member) const {
  return {generation_, set_, static_cast<std::uint64_t>(member),
          static_cast<std::uint64_t>(carrier.members())};
}

error peer_greeting::exchange(messenger& carrier, const departure_protocol& names,
                              const deadline_and_abort& deadline) {
  own_ = of(carrier, carrier.rank());
  heard_.resize(static_cast<std::size_t>(carrier.members()));
  for (std::int32_t peer = 0; peer < carrier.members(); ++peer) {
    if (peer == carrier.rank())
      continue;
    words& heard = heard_[static_cast<std::size_t>(peer)];
    carrier.receive(peer, message_phase::hello, std::as_writable_bytes(std::span{heard}), ticket_);
    carrier.send(peer, message_phase::hello, std::as_bytes(std::span{own_}), ticket_);
  }
  if (error problem = carrier.wait(ticket_, deadline))
    return problem;
  for (std::int32_t peer = 0; peer < carrier.members(); ++peer)
    if (peer != carrier.rank() && heard_[static_cast<std::size_t>(peer)] != of(carrier, peer))
      return {error_kind::precondition,
              names.name_of(peer) + " is in another generation, set or place than announced"};
  return {};
}

} // namespace farandole
