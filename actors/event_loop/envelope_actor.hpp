// Envelopes as messages between actors.
#pragma once

#include <caf/all.hpp>

#include "messages/wire/envelope.hpp"

namespace farandole {

/// Takes envelopes. An actor that envelopes come to has checked, or relies on the message router to have checked, the
/// sender in the envelope against the link that it came by. The message router sends an envelope to the member that it
/// is for, or to all members of its set; what members send the leader goes by the relays above them
/// (collectives/relay/relay_tree.hpp).
using envelope_actor = caf::typed_actor<caf::reacts_to<envelope>>;

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::envelope)
