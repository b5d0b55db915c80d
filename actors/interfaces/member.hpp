// The root of one member's actors (actors/member/member.hpp).
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

/// The root of one member's tree: speaks with the rendezvous, starts and ends the generation's actors.
using member_actor = caf::typed_actor<
    /// Welcome, refused or lost, from the rendezvous.
    caf::reacts_to<envelope>, caf::reacts_to<rendezvous_gone>, caf::reacts_to<peer_gone>,
    /// The path connector's paths are connected: this member is in.
    caf::reacts_to<ready_atom>,
    /// Where this member leads: another one sent what cannot be (from the negotiator).
    caf::reacts_to<member_fault>,
    /// The lane or an actor of the generation broke.
    caf::reacts_to<generation_broken>,
    /// From the actor of heartbeats, as long as there are any.
    caf::reacts_to<processes_silent>,
    /// From a worker.
    caf::reacts_to<operations_held_up>,
    /// A framework thread wants to leave in order.
    caf::reacts_to<leave_request>,
    /// Elastic jobs: this process was told to end; tell the rendezvous that it leaves by plan.
    caf::reacts_to<withdraw_atom>,
    /// The leader has ended the generation in order (from the worker).
    caf::reacts_to<generation_ended>,
    /// The global set's lane has run everything that was scheduled, or: all other sets are gone.
    caf::reacts_to<drained_atom>,
    /// INTERNAL: a deadline of leaving has passed.
    caf::reacts_to<retry_atom>,
    /// INTERNAL: the rendezvous went away; it is time to look for it again.
    caf::reacts_to<call_atom>>;

} // namespace farandole
