// A process set's worker: it takes operations from framework threads, and schedules from the leader
// (actors/process_set/set_client.hpp).
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

/// The part of the member's root that the worker sees, and the stall watch beside it.
using set_client_watcher_actor = caf::typed_actor<
    /// The generation cannot go on.
    caf::reacts_to<generation_broken>,
    /// The leader has ended it in order.
    caf::reacts_to<generation_ended>,
    /// Operations wait for a silent member.
    caf::reacts_to<operations_held_up>>;

using set_client_actor = caf::typed_actor<
    /// A framework thread has queued operations at the submission queue.
    caf::reacts_to<doorbell_atom>,
    /// The leader's schedule.
    caf::reacts_to<envelope>,
    /// Ask the leader to end the generation in order.
    caf::reacts_to<leave_request>,
    /// Fail everything that no lane has started; answer later submissions with the reason.
    caf::reacts_to<generation_over>,
    /// INTERNAL: the submission queue was busy; try again.
    caf::reacts_to<retry_atom>,
    /// INTERNAL: look after what sits on the fast path with a callback.
    caf::reacts_to<look_atom>,
    /// INTERNAL: something may have waited long enough for the rest of its bucket.
    caf::reacts_to<tick_atom>,
    /// Tell the member if operations have waited for these for too long.
    caf::reacts_to<processes_silent>,
    /// From the lane of the member that tells the leader how far it is.
    caf::reacts_to<bundle_finished>,
    /// What has waited on the fast path longer than this, and for whom? Answered by the first of those that wait.
    caf::replies_to<stalled_atom, std::chrono::nanoseconds>::with<stall_list>>;

} // namespace farandole
