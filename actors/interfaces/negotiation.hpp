// The actors that turn requests into an ordered schedule of bundles: on the leader of a process set the negotiator,
// the fusion scheduler and the stall watch, and on other members the relays.
#pragma once

#include <caf/all.hpp>

#include <chrono>
#include <cstdint>
#include <memory>

#include "actors/event_loop/atoms.hpp"
#include "actors/event_loop/envelope_actor.hpp"
#include "collectives/negotiation/negotiation_result.hpp"

namespace farandole {

struct stall_list;

/// The negotiator's decisions of one step, which the fusion scheduler orders and fuses (collectives/negotiation).
struct negotiation_result_message {
  std::shared_ptr<const negotiation_result> decided;
};

/// A lane has finished the bundle of this sequence number: the leader's own lane, or the lane of the member that
/// reports its progress to the leader.
struct bundle_finished {
  std::uint64_t sequence = 0;
};

using negotiator_actor = caf::typed_actor<
    /// Requests of a member of the set.
    caf::reacts_to<envelope>,
    /// End the set in order.
    caf::reacts_to<leave_atom>,
    /// Lists the tensors that have waited longer than the given time, and the ranks that they wait for.
    caf::replies_to<stalled_atom, std::chrono::nanoseconds>::with<stall_list>>;

using stall_watch_actor = caf::typed_actor<
    /// INTERNAL: it is time to check for stalls.
    caf::reacts_to<tick_atom>>;

using relay_actor = caf::typed_actor<
    /// Requests of the members below, gathered requests of the relays below, and schedules from the leader.
    caf::reacts_to<envelope>,
    /// INTERNAL: gathered requests may be due to be forwarded. Carries the time for which the timer was set; a tick
    /// of a timer that has been replaced is ignored.
    caf::reacts_to<tick_atom, std::chrono::nanoseconds>>;

using fusion_scheduler_actor = caf::typed_actor<
    /// The negotiator has decided.
    caf::reacts_to<negotiation_result_message>,
    /// A lane has finished a bundle, so the next one may start.
    caf::reacts_to<bundle_finished>,
    /// INTERNAL: the maximum time that the oldest tensor may wait for fusion is over.
    caf::reacts_to<tick_atom>>;

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::negotiation_result_message)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::bundle_finished)
