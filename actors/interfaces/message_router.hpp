// The message router: it owns the links of a member, and sends and routes every envelope (actors/member/message_router.hpp).
#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/event_loop/atoms.hpp"
#include "actors/event_loop/envelope_actor.hpp"
#include "collectives/relay/relay_tree.hpp"
#include "messages/wire/welcome.hpp"

namespace farandole {

struct link_closed;
struct link_opened;
struct link_received;

/// Deliver to the rendezvous.
struct rendezvous_message {
  envelope message;
};

/// A process set has started here, and who takes what of it. Null: not on this member.
struct set_entered {
  std::uint32_t number = 0; ///< of envelopes; 0 for the global set
  std::vector<std::int32_t> ranks;
  envelope_actor worker;           ///< schedules
  envelope_actor mover;            ///< path addresses of all
  envelope_actor negotiator;       ///< requests
  envelope_actor address_exchange; ///< each member's path addresses
  envelope_actor relay;            ///< where members are below this one: requests, and schedules as well
};

/// A process set has ended here; what still comes for it is dropped.
struct set_left {
  std::uint32_t number = 0;
};

/// From now on, this generation: who is in, and who takes what here.
struct generation_entered {
  std::uint64_t generation = 0;
  std::int32_t rank = 0;
  std::vector<member> members;
  std::shared_ptr<const relay_tree> tree;
  set_entered global;
  envelope_actor heartbeats; ///< of members at the other ends of links; may be null
};

/// Deliver to the member at the other end of a link, if there is such a link now.
struct neighbour_message {
  std::int32_t rank = -1;
  envelope message;
};

/// These members are lost or silent: nobody waits until they have taken what was sent to them.
struct neighbours_given_up {
  std::vector<std::int32_t> ranks;
};

/// A link to another member ended although nobody had asked for it.
struct peer_gone {
  std::int32_t rank = -1;
  std::string reason;
};

/// The link to the rendezvous could not be opened, or ended.
struct rendezvous_gone {
  std::string reason;
  bool untrusted = false; ///< as in link_closed
  bool opened = false;    ///< the link had been open: whoever ended it had the job's secret
};

/// Dial the rendezvous, and say this before anything else.
struct rendezvous_call {
  envelope path_addresses;
};

using message_router_actor = caf::typed_actor<
    /// Send this to the member that it is for, or to all of its set.
    caf::reacts_to<envelope>,
    /// Send this to the rendezvous, as soon as its link is up.
    caf::reacts_to<rendezvous_message>,
    /// Send this by a link, or drop it.
    caf::reacts_to<neighbour_message>,
    /// Close the links to these.
    caf::reacts_to<neighbours_given_up>,
    /// There is no link to the rendezvous: open one.
    caf::reacts_to<rendezvous_call>,
    /// Dial the member above, expect those below, and route by this from now on.
    caf::reacts_to<generation_entered>,
    /// Route this set's messages, from now on and no longer.
    caf::reacts_to<set_entered>, caf::reacts_to<set_left>,
    /// Send what is queued, close all links; end once they are closed.
    caf::reacts_to<close_atom>, caf::reacts_to<link_opened>, caf::reacts_to<link_received>,
    caf::reacts_to<link_closed>>;

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::rendezvous_message)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::set_entered)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::set_left)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::generation_entered)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::neighbour_message)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::neighbours_given_up)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::peer_gone)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::rendezvous_gone)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::rendezvous_call)
