// The interface of actors that receive envelopes.
#pragma once

#include <caf/all.hpp>

#include "messages/wire/envelope.hpp"

namespace farandole {

/// Receives envelopes. The source rank in an envelope is trustworthy: the message router has checked it against the
/// link on which the envelope arrived, or the receiving actor checks it itself. The message router sends an envelope
/// to its target member, or to all members of its set. Envelopes from members to the leader pass through the relays
/// above those members (collectives/relay/relay_tree.hpp).
using envelope_actor = caf::typed_actor<caf::reacts_to<envelope>>;

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::envelope)
