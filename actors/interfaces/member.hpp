// The interface of a member's root actor (actors/member/member.hpp).
#pragma once

#include <caf/all.hpp>

#include "actors/event_loop/atoms.hpp"
#include "actors/event_loop/envelope_actor.hpp"

namespace farandole {

struct generation_broken;
struct generation_ended;
struct leave_request;
struct member_fault;
struct operations_held_up;
struct peer_gone;
struct processes_silent;
struct rendezvous_gone;
struct stalls_noticed;

/// The root of a member's actors. It talks to the rendezvous, and starts and ends the actors of each generation.
using member_actor = caf::typed_actor<
    /// A message of the rendezvous, such as welcome, refused or lost.
    caf::reacts_to<envelope>,
    /// The link to the rendezvous, or the link to another member, has ended.
    caf::reacts_to<rendezvous_gone>, caf::reacts_to<peer_gone>,
    /// All paths of the global set are connected: this member has joined.
    caf::reacts_to<ready_atom>,
    /// From the negotiator, the address exchange or a relay: another member broke the protocol.
    caf::reacts_to<member_fault>,
    /// The lane or an actor of the generation has failed.
    caf::reacts_to<generation_broken>,
    /// From the heartbeats actor, periodically while some processes are silent.
    caf::reacts_to<processes_silent>,
    /// From a set client.
    caf::reacts_to<operations_held_up>,
    /// From a stall watch, for the rendezvous.
    caf::reacts_to<stalls_noticed>,
    /// From a framework thread: leave the job in order.
    caf::reacts_to<leave_request>,
    /// Elastic jobs: this process was told to end. Tell the rendezvous that it leaves by plan.
    caf::reacts_to<withdraw_atom>,
    /// From the set client: the leader has ended the generation in order.
    caf::reacts_to<generation_ended>,
    /// The global set's lane has run all scheduled bundles. Sent once more when all other sets have ended.
    caf::reacts_to<drained_atom>,
    /// INTERNAL: a deadline has passed, either of leaving or for the rendezvous' report on a suspected loss.
    caf::reacts_to<retry_atom>,
    /// INTERNAL: the rendezvous could not be reached; it is time to dial it again.
    caf::reacts_to<call_atom>>;

} // namespace farandole
