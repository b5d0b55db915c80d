// The leader's part of a process set, and the relays below it: from requests to bundles in order.
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

/// What the negotiator decided in one step, for the fusion scheduler to put in order (collectives/negotiation).
struct negotiation_result_message {
  std::shared_ptr<const negotiation_result> decided;
};

/// The leader's own lane, or the one that reports to it, has finished the bundle of this sequence number.
struct bundle_finished {
  std::uint64_t sequence = 0;
};

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

using relay_actor = caf::typed_actor<
    /// Requests of members below, what relays below have gathered, schedules from above.
    caf::reacts_to<envelope>,
    /// INTERNAL: something may be due to go up, as was thought when this was set for that time.
    caf::reacts_to<tick_atom, std::chrono::nanoseconds>>;

using fusion_scheduler_actor = caf::typed_actor<
    /// The negotiator has decided.
    caf::reacts_to<negotiation_result_message>,
    /// The lane here has finished a bundle; the next may go.
    caf::reacts_to<bundle_finished>,
    /// INTERNAL: the hold-back of the oldest tensor is over.
    caf::reacts_to<tick_atom>>;

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::negotiation_result_message)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::bundle_finished)
