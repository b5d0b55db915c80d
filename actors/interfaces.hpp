// The map of the actors: who exists, and one sentence for each message they take. Everything between processes is an
// envelope; everything here stays inside one process. Messages are immutable; an actor's state is its own.
#pragma once

#include <caf/all.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "messages/envelope.hpp"
#include "messages/membership.hpp"
#include "messages/negotiation.hpp"

namespace farandole {

// ---- links ----------------------------------------------------------------------------------------------------

/// Numbers a link within its process; never reused.
using link_id = std::uint64_t;

/// A link is up: both ends have proved that they know the job's secret.
struct link_opened {
  link_id link = 0;
  caf::actor handle;  ///< a link_actor; kept by the owner, to send and to close
  std::string peer;   ///< "127.0.0.1:4711", for people
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
};

using close_atom = caf::atom_constant<caf::atom("close")>;

using link_actor = caf::typed_actor<
    /// Send this to the peer; messages keep their order. A full queue closes the link.
    caf::reacts_to<envelope>,
    /// Send what is queued, then close; the owner hears link_closed.
    caf::reacts_to<close_atom>>;

using link_owner_actor = caf::typed_actor<
    /// A link is up.
    caf::reacts_to<link_opened>,
    /// The peer sent a message.
    caf::reacts_to<link_received>,
    /// A link is gone, or never came up.
    caf::reacts_to<link_closed>>;

// ---- post: who is reached by which link ------------------------------------------------------------------------

/// Deliver to one member, or to all of them (rank -1), of the current generation. A member that is this process itself
/// gets it without a link.
struct outbound {
  std::int32_t rank = -1;
  envelope message;
};

// ---- a process set's actors ------------------------------------------------------------------------------------

/// What the negotiator decided in one step, for the fusion scheduler to put in order (collectives/plan).
struct verdict_message;
/// The leader's own lane has finished the bundle of this sequence number.
struct bundle_finished {
  std::uint64_t sequence = 0;
};

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::envelope)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::link_opened)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::link_received)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::link_closed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::outbound)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::bundle_finished)
