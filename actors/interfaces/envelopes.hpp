// How an actor reaches the members of its generation, and what takes the envelopes that they send.
#pragma once

#include <caf/all.hpp>

#include <cstdint>

#include "messages/envelope.hpp"

namespace farandole {

/// Deliver to one member, or to all of them (rank -1), of the current generation; the envelope's target says
/// the same. A member that is this process itself gets it without a link. What members send the leader goes
/// by the relays above them (collectives/plan/relay_tree.hpp).
struct outbound {
  std::int32_t rank = -1;
  envelope message;
};

/// Takes envelopes of one kind that came from anywhere; the sender is in the envelope and has been checked
/// against the link that it came by.
using envelope_actor = caf::typed_actor<caf::reacts_to<envelope>>;

using outbound_actor = caf::typed_actor<
    /// Send this to a member of the set, or to all; the post is one.
    caf::reacts_to<outbound>>;

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::outbound)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::envelope)
