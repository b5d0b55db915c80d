// A process set's worker: it takes operations from framework threads, and schedules from the leader
// (actors/set/worker.hpp).
#pragma once

#include <caf/all.hpp>

#include <chrono>

#include "actors/kit/envelope_actor.hpp"

namespace farandole {

using doorbell_atom = caf::atom_constant<caf::atom("doorbell")>;
using look_atom = caf::atom_constant<caf::atom("look")>;
using retry_atom = caf::atom_constant<caf::atom("retry")>;
using stalled_atom = caf::atom_constant<caf::atom("stalled")>;
using tick_atom = caf::atom_constant<caf::atom("tick")>;

struct bundle_finished;
struct generation_over;
struct leave_request;
struct processes_silent;
struct stall_list;

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

} // namespace farandole
