// The map of the actors: who exists, and one sentence for each message they take. Everything between
// processes is an envelope; everything here stays inside one process. Messages are immutable; an actor's
// state is its own.
#pragma once

#include <caf/all.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/door/pending.hpp"
#include "collectives/plan/relay_tree.hpp"
#include "collectives/plan/stall.hpp"
#include "collectives/plan/verdict.hpp"
#include "elastic/slot_fate.hpp"
#include "messages/drain.hpp"
#include "messages/envelope.hpp"
#include "messages/failed_host.hpp"
#include "messages/heartbeat.hpp"
#include "messages/membership.hpp"
#include "messages/negotiation.hpp"

namespace farandole {

// ---- links ---------------------------------------------------------------------------------------

/// Numbers a link within its process; never reused.
using link_id = std::uint64_t;

/// A link is up: both ends have proved that they know the job's secret.
struct link_opened {
  link_id link = 0;
  caf::actor handle;     ///< a link_actor; kept by the owner, to send and to close
  std::string peer;      ///< "127.0.0.1:4711", for people
  bool accepted = false; ///< the other end dialled
};

/// A whole, bounded, parsed message came in.
struct link_received {
  link_id link = 0;
  envelope message;
};

/// A link ended, or could not be opened; nothing follows. `reason` is empty when both ends wanted it.
struct link_closed {
  link_id link = 0;
  std::string reason;
  bool untrusted = false; ///< the other end, which need not be the one that was meant, has not our secret
};

/// To a listener, from its owner: connections from the hosts of these peers ("10.0.0.1:4711"), and of no
/// others, are served before those of strangers from now on.
struct peers_expected {
  std::vector<std::string> peers;
};

using close_atom = caf::atom_constant<caf::atom("close")>;
using cut_atom = caf::atom_constant<caf::atom("cut")>;

using link_actor = caf::typed_actor<
    /// Send this to the peer; messages keep their order. A full queue closes the link.
    caf::reacts_to<envelope>,
    /// Send what is queued, then close; the owner hears link_closed.
    caf::reacts_to<close_atom>,
    /// The same, without waiting until the peer has taken it.
    caf::reacts_to<cut_atom>>;

using link_owner_actor = caf::typed_actor<
    /// A link is up.
    caf::reacts_to<link_opened>,
    /// The peer sent a message.
    caf::reacts_to<link_received>,
    /// A link is gone, or never came up.
    caf::reacts_to<link_closed>>;

// ---- post: who is reached by which link ----------------------------------------------------------

/// Deliver to one member, or to all of them (rank -1), of the current generation; the envelope's target says
/// the same. A member that is this process itself gets it without a link. What members send the leader goes
/// by the relays above them (collectives/plan/relay_tree.hpp).
struct outbound {
  std::int32_t rank = -1;
  envelope message;
};

/// Deliver to the rendezvous.
struct outbound_to_rendezvous {
  envelope message;
};

/// Takes envelopes of one kind that came from anywhere; the sender is in the envelope and has been checked
/// against the link that it came by.
using envelope_actor = caf::typed_actor<caf::reacts_to<envelope>>;

/// A process set has started here, and who takes what of it. Null: not on this member.
struct set_entered {
  std::uint32_t number = 0; ///< of envelopes; 0 for the global set
  std::vector<std::int32_t> ranks;
  envelope_actor worker;     ///< schedules
  envelope_actor mover;      ///< introductions of all
  envelope_actor negotiator; ///< requests
  envelope_actor introducer; ///< each member's introduction
  envelope_actor gatherer;   ///< where members are below this one: requests, and schedules as well
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
struct outbound_to_neighbour {
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
  envelope introduction;
};

using post_actor = caf::typed_actor<
    /// Send this to a member, or to all.
    caf::reacts_to<outbound>,
    /// Send this to the rendezvous, as soon as its link is up.
    caf::reacts_to<outbound_to_rendezvous>,
    /// Send this by a link, or drop it.
    caf::reacts_to<outbound_to_neighbour>,
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

// ---- a member's own actors -----------------------------------------------------------------------

struct lane_job;
/// A bundle for the lane. Shared only because messages are copied; the mover takes what is inside.
using lane_job_ptr = std::shared_ptr<std::unique_ptr<lane_job>>;

using doorbell_atom = caf::atom_constant<caf::atom("doorbell")>;
using leave_atom = caf::atom_constant<caf::atom("leave")>;
using look_atom = caf::atom_constant<caf::atom("look")>;
using retry_atom = caf::atom_constant<caf::atom("retry")>;
using ready_atom = caf::atom_constant<caf::atom("ready")>;
using tick_atom = caf::atom_constant<caf::atom("tick")>;
using drained_atom = caf::atom_constant<caf::atom("drained")>;
using withdraw_atom = caf::atom_constant<caf::atom("withdraw")>;

/// The generation is over for this member, and why. What was not started fails with it.
struct generation_over {
  error why;
};

/// The generation has ended in order, because a member left.
struct generation_ended {
  departed_member departed;
  bool interrupted = false; ///< operations were pending here
  error why;                ///< with which they failed
};

/// This process leaves the job in order.
struct leave_request {
  departure how;
};

/// Something in this member's part of the generation broke; it cannot go on.
struct generation_broken {
  std::string reason;
  error_kind kind = error_kind::unknown;
};

/// The leader's own lane, or the one that reports to it, has finished the bundle of this sequence number.
struct bundle_finished {
  std::uint64_t sequence = 0;
};

/// All members have agreed on a change of the process sets.
struct sets_changed {
  std::vector<set_event> events;
  pending_ptr asked; ///< who asked for it here, to be settled when it has come about
};

/// Sets that have failed on some member start anew on all.
struct sets_restarted {
  std::vector<set_restart> sets;
};

/// The data path of a process set on this member broke.
struct set_broken {
  std::uint32_t number = 0;
  error what;
  bool looked_at = false; ///< nobody has said why in the meantime
};

/// Members whose processes have made no progress for longer than a late core explains, ascending.
struct processes_silent {
  std::vector<silence> ranks;
};

/// Operations have waited for a silent member for longer than they may.
struct operations_held_up {
  silence by;
};

using heartbeats_actor = caf::typed_actor<
    /// A heartbeat of the member at the other end of a link.
    caf::reacts_to<envelope>,
    /// All members are connected: from now on the neighbours' silence counts, heard from before or not.
    caf::reacts_to<ready_atom>,
    /// INTERNAL: it is time to give a sign of life, and to look for those of the others.
    caf::reacts_to<tick_atom>>;

/// How far a process set on this member is.
struct set_told {
  enum class what : std::uint8_t {
    built,   ///< its actors run
    ready,   ///< its paths are connected
    ended,   ///< the leader's last schedule has come, or, on a leader that is no member, has gone out
    settled, ///< what was pending in it has failed
    drained, ///< its lane has run all it was given
  };
  std::uint32_t number = 0;
  what news = what::ready;
};

using sets_actor = caf::typed_actor<
    /// Start and end these; settle who asked once that is done here.
    caf::reacts_to<sets_changed>,
    /// End these at once and start them anew.
    caf::reacts_to<sets_restarted>,
    /// From the mover or the lane of one set, and INTERNAL: a while ago.
    caf::reacts_to<set_broken>,
    /// From the actors of one set.
    caf::reacts_to<set_told>,
    /// End all sets in order; tell the member `drained` when they are gone.
    caf::reacts_to<generation_ended>,
    /// Make all sets give up.
    caf::reacts_to<generation_over>,
    /// Ask all sets whether their operations wait for these.
    caf::reacts_to<processes_silent>,
    /// INTERNAL: a door was busy; try again.
    caf::reacts_to<retry_atom>>;

struct stall_list {
  std::vector<stall> stalls; ///< oldest first
};

using stalled_atom = caf::atom_constant<caf::atom("stalled")>;

using worker_actor = caf::typed_actor<
    /// A framework thread has queued operations at the door.
    caf::reacts_to<doorbell_atom>,
    /// The leader's schedule.
    caf::reacts_to<envelope>,
    /// Ask the leader to end the generation in order.
    caf::reacts_to<leave_request>,
    /// Fail everything that no lane has started; answer later submissions with the reason.
    caf::reacts_to<generation_over>,
    /// INTERNAL: the door was busy; try again.
    caf::reacts_to<retry_atom>,
    /// INTERNAL: look after what sits on the board with a callback.
    caf::reacts_to<look_atom>,
    /// INTERNAL: something may have waited long enough for the rest of its bucket.
    caf::reacts_to<tick_atom>,
    /// Tell the member if operations have waited for these for too long.
    caf::reacts_to<processes_silent>,
    /// From the lane of the member that tells the leader how far it is.
    caf::reacts_to<bundle_finished>,
    /// What has waited on the board longer than this, and for whom? Answered by the first of those who wait.
    caf::replies_to<stalled_atom, std::chrono::nanoseconds>::with<stall_list>>;

using mover_actor = caf::typed_actor<
    /// Everybody's introductions.
    caf::reacts_to<envelope>,
    /// Run this bundle.
    caf::reacts_to<lane_job_ptr>,
    /// Make the lane give up.
    caf::reacts_to<generation_over>,
    /// Call back once the lane has run all it was given.
    caf::reacts_to<drained_atom>,
    /// INTERNAL, from the lane: this member's paths can be reached so.
    caf::reacts_to<introduction>,
    /// INTERNAL, from the lane: all paths are connected.
    caf::reacts_to<ready_atom>>;

/// A member sent what cannot be read, or broke the protocol of a set; its link should be closed.
struct member_fault {
  std::int32_t rank = -1;
  std::uint32_t set = 0;
  std::string reason;
};

using call_atom = caf::atom_constant<caf::atom("call")>;

/// The root of one member's tree: speaks with the rendezvous, starts and ends the generation's actors.
using member_actor = caf::typed_actor<
    /// Welcome, refused or lost, from the rendezvous.
    caf::reacts_to<envelope>, caf::reacts_to<rendezvous_gone>, caf::reacts_to<peer_gone>,
    /// The mover's paths are connected: this member is in.
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

// ---- the rendezvous ------------------------------------------------------------------------------

/// The process of a slot has ended, and how: "exited with code 3", "was killed by signal 9".
struct slot_exited {
  std::int32_t slot = 0;
  std::string how;
};

/// Elastic jobs: the process of a slot is about to be started; others are turned away.
struct slot_started {
  std::int32_t slot = 0;
  std::string host = {}; ///< its name, for people; empty: not known
};

/// Elastic jobs: this slot is to leave, once all members end the generation at a commit.
struct slot_retired {
  std::int32_t slot = 0;
};

/// Elastic jobs: training has come to its end somewhere, and no process is started any more.
struct nobody_comes {};

/// These slots' members are a generation from now on.
struct generation_formed {
  std::uint64_t generation = 0;
  std::vector<std::int32_t> slots; ///< by rank
};

/// The process of this slot was told to end: it is to leave, as if retired.
struct slot_leaving {
  std::int32_t slot = 0;
};

/// Somebody who knows the job's secret wants members out.
struct drain_asked {
  link_id link = 0;
  drain what;
};

/// The answer, for the one behind this link.
struct drain_answered {
  link_id link = 0;
  draining what;
};

using fate_watcher_actor = caf::typed_actor<
    /// From the rendezvous.
    caf::reacts_to<slot_fate>>;

/// Tell this one of the fate of every slot from now on.
struct watch_fates {
  fate_watcher_actor who;
};

using generation_watcher_actor = caf::typed_actor<
    /// From the rendezvous.
    caf::reacts_to<generation_formed>, caf::reacts_to<slot_leaving>, caf::reacts_to<drain_asked>>;

/// The launcher's blacklist has changed: all hosts that ever were on it, by name.
struct hosts_failed {
  std::vector<failed_host> hosts;
};

/// Tell this one of every generation that forms from now on.
struct watch_generations {
  generation_watcher_actor who;
};

/// INTERNAL: the members that an ended generation's successor waits for, or that have not come back to a
/// rendezvous which was started again, may have had their time.
struct regroup_overdue {};

/// INTERNAL: it is time to tell members that wait who is missing.
struct missing_due {};

/// INTERNAL: a link to a slot's member has been down for a while and no exit was reported.
struct link_stayed_down {
  link_id link = 0;
  std::string reason;
};

/// INTERNAL: a member said this of itself or, a while ago, of another.
struct member_reported {
  link_id link = 0;
  lost what;
};

/// INTERNAL: what accepts links for the rendezvous; it lives as long as its owner.
struct listener_started {
  caf::actor handle;
};

using rendezvous_actor = caf::typed_actor<
    caf::reacts_to<listener_started>,
    /// From the host driver.
    caf::reacts_to<slot_exited>, caf::reacts_to<slot_started>, caf::reacts_to<slot_retired>,
    caf::reacts_to<nobody_comes>, caf::reacts_to<hosts_failed>, caf::reacts_to<watch_generations>,
    caf::reacts_to<watch_fates>, caf::reacts_to<drain_answered>, caf::reacts_to<link_stayed_down>,
    caf::reacts_to<member_reported>, caf::reacts_to<regroup_overdue>, caf::reacts_to<missing_due>,
    /// Refuse new members, close all links, end.
    caf::reacts_to<close_atom>, caf::reacts_to<link_opened>, caf::reacts_to<link_received>,
    caf::reacts_to<link_closed>>;

// ---- a process set's actors ----------------------------------------------------------------------

/// What the negotiator decided in one step, for the fusion scheduler to put in order (collectives/plan).
struct verdict_message {
  std::shared_ptr<const verdict> decided;
};

using outbound_actor = caf::typed_actor<
    /// Send this to a member of the set, or to all; the post is one.
    caf::reacts_to<outbound>>;

using member_watcher_actor = caf::typed_actor<
    /// A member misbehaved.
    caf::reacts_to<member_fault>>;

using negotiator_actor = caf::typed_actor<
    /// Requests of a member of the set.
    caf::reacts_to<envelope>,
    /// End the set in order.
    caf::reacts_to<leave_atom>,
    /// What has waited longer than this, and for whom?
    caf::replies_to<stalled_atom, std::chrono::nanoseconds>::with<stall_list>>;

using stall_watch_actor = caf::typed_actor<
    /// INTERNAL: time to look.
    caf::reacts_to<tick_atom>>;

using gatherer_actor = caf::typed_actor<
    /// Requests of members below, what relays below have gathered, schedules from above.
    caf::reacts_to<envelope>,
    /// INTERNAL: something may be due to go up, as was thought when this was set for that time.
    caf::reacts_to<tick_atom, std::chrono::nanoseconds>>;

using fusion_scheduler_actor = caf::typed_actor<
    /// The negotiator has decided.
    caf::reacts_to<verdict_message>,
    /// The lane here has finished a bundle; the next may go.
    caf::reacts_to<bundle_finished>,
    /// INTERNAL: the hold-back of the oldest tensor is over.
    caf::reacts_to<tick_atom>>;

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::envelope)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::link_opened)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::peers_expected)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::link_received)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::link_closed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::outbound)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::outbound_to_rendezvous)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::set_entered)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::set_left)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::sets_changed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::set_told)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::sets_restarted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::set_broken)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::generation_entered)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::peer_gone)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::outbound_to_neighbour)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::neighbours_given_up)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::processes_silent)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::operations_held_up)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::rendezvous_gone)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::rendezvous_call)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::lane_job_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::generation_over)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::generation_ended)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::leave_request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::generation_broken)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::introduction)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::slot_exited)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::slot_started)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::missing_due)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::slot_retired)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::nobody_comes)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::hosts_failed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::generation_formed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::slot_leaving)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::drain_asked)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::drain_answered)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::watch_generations)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::slot_fate)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::watch_fates)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::regroup_overdue)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::link_stayed_down)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::member_reported)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::listener_started)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::bundle_finished)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::verdict_message)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::member_fault)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::stall_list)
