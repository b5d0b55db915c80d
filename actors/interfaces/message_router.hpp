// The interface of the message router, which owns the links of a member and routes every envelope
// (actors/member/message_router.hpp).
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

/// A message to deliver to the rendezvous.
struct rendezvous_message {
  envelope message;
};

/// A process set has started on this member. Names the actors that receive its envelopes; an actor that does not run
/// on this member is null.
struct set_entered {
  std::uint32_t number = 0; ///< the set's number in envelopes; 0 for the global set
  std::vector<std::int32_t> ranks;
  envelope_actor set_client;       ///< the set client: receives schedules
  envelope_actor connector;        ///< the path connector: receives the path addresses of all members
  envelope_actor negotiator;       ///< receives requests
  envelope_actor address_exchange; ///< receives the path addresses of each member
  envelope_actor relay;            ///< receives requests of the members below it, and schedules
};

/// A process set has ended on this member. Envelopes that still arrive for it are dropped.
struct set_left {
  std::uint32_t number = 0;
};

/// A generation has started: its members, and the actors on this member that receive its envelopes.
struct generation_entered {
  std::uint64_t generation = 0;
  std::int32_t rank = 0;
  std::vector<member> members;
  std::shared_ptr<const relay_tree> tree;
  set_entered global;
  envelope_actor heartbeats; ///< receives the heartbeats of neighbours; may be null
};

/// A message to a neighbour, which is the member at the other end of a link. Dropped if there is no such link.
struct neighbour_message {
  std::int32_t rank = -1;
  envelope message;
};

/// These neighbours are lost or silent. Their links are closed without waiting until they have received all messages.
struct neighbours_given_up {
  std::vector<std::int32_t> ranks;
};

/// A link to another member ended unexpectedly.
struct peer_gone {
  std::int32_t rank = -1;
  std::string reason;
};

/// The link to the rendezvous could not be opened, or ended.
struct rendezvous_gone {
  std::string reason;
  bool untrusted = false; ///< as in link_closed
  bool opened = false;    ///< the link had been open, so the process at its other end had the job's secret
};

/// Dials the rendezvous. `first_message` is the first message on the new link.
struct rendezvous_call {
  envelope first_message;
};

using message_router_actor = caf::typed_actor<
    /// Send this envelope to its target member, or to all members of its set.
    caf::reacts_to<envelope>,
    /// Send this to the rendezvous, as soon as its link is open.
    caf::reacts_to<rendezvous_message>,
    /// Send this to a neighbour, or drop it if there is no link.
    caf::reacts_to<neighbour_message>,
    /// Close the links to these neighbours at once.
    caf::reacts_to<neighbours_given_up>,
    /// Open a link to the rendezvous, if there is none.
    caf::reacts_to<rendezvous_call>,
    /// Dial the member above this one, accept the members below, and route the envelopes of this generation.
    caf::reacts_to<generation_entered>,
    /// Start and stop routing the envelopes of a process set.
    caf::reacts_to<set_entered>, caf::reacts_to<set_left>,
    /// Send the queued messages, close all links, and end once they are closed.
    caf::reacts_to<close_atom>,
    /// From links.
    caf::reacts_to<link_opened>, caf::reacts_to<link_received>, caf::reacts_to<link_closed>>;

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
