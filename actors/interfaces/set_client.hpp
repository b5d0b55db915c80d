// The interface of the set client, which receives operations from framework threads and schedules from the leader of
// its process set (actors/process_set/set_client.hpp).
#pragma once

#include <caf/all.hpp>

#include <chrono>

#include "actors/event_loop/atoms.hpp"
#include "actors/event_loop/envelope_actor.hpp"

namespace farandole {

struct bundle_finished;
struct generation_broken;
struct generation_ended;
struct generation_over;
struct leave_request;
struct operations_held_up;
struct processes_silent;
struct stall_list;

/// The part of the member's root interface that the set client and the stall watch use.
using set_client_watcher_actor = caf::typed_actor<
    /// The member cannot continue in the generation.
    caf::reacts_to<generation_broken>,
    /// The leader has ended the generation in order.
    caf::reacts_to<generation_ended>,
    /// Operations wait for a silent member.
    caf::reacts_to<operations_held_up>>;

using set_client_actor = caf::typed_actor<
    /// A framework thread has pushed operations to the submission queue.
    caf::reacts_to<doorbell_atom>,
    /// The leader's schedule.
    caf::reacts_to<envelope>,
    /// Ask the leader to end the generation in order.
    caf::reacts_to<leave_request>,
    /// Fail all operations that no lane has started, and later submissions, with this reason.
    caf::reacts_to<generation_over>,
    /// INTERNAL: the submission queue was busy; try again.
    caf::reacts_to<retry_atom>,
    /// INTERNAL: check the operations on the fast path whose callers do not wait for them.
    caf::reacts_to<look_atom>,
    /// INTERNAL: a tensor may have waited long enough for the rest of its bucket.
    caf::reacts_to<tick_atom>,
    /// Tell the member if operations have waited too long for these members.
    caf::reacts_to<processes_silent>,
    /// From the lane, on the member that reports the progress of its lane to the leader.
    caf::reacts_to<bundle_finished>,
    /// Lists the operations that have waited on the fast path longer than the given time, and the ranks that they
    /// wait for. Only one of the waiting members lists an operation, so that it is reported once.
    caf::replies_to<stalled_atom, std::chrono::nanoseconds>::with<stall_list>>;

} // namespace farandole
