// The messages between a link (one authenticated connection to another process), a listener and the owner of the link
// (actors/event_loop/link.hpp).
#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "actors/event_loop/atoms.hpp"
#include "actors/event_loop/envelope_actor.hpp"
#include "actors/event_loop/link_id.hpp"

namespace farandole {

/// A link is up: both ends have proved that they know the job's secret.
struct link_opened {
  link_id link = 0;
  caf::actor handle;     ///< a link_actor; the owner keeps it to send envelopes and to close the link
  std::string peer;      ///< "127.0.0.1:4711", for messages
  bool accepted = false; ///< the peer dialled
};

/// A complete message arrived. It was parsed, and its size is within the limits.
struct link_received {
  link_id link = 0;
  envelope message;
};

/// A link ended or could not be opened. It is the last message about this link. `reason` is empty if the end was
/// requested by this process or by the peer.
struct link_closed {
  link_id link = 0;
  std::string reason;
  /// The process at the other end does not have the job's secret. It may not be the intended peer.
  bool untrusted = false;
};

/// From its owner to a listener: from now on connections from the hosts of these peers ("10.0.0.1:4711") are served
/// before all others. Replaces the earlier list.
struct peers_expected {
  std::vector<std::string> peers;
};

using link_actor = caf::typed_actor<
    /// Send this to the peer. Messages keep their order. A full queue closes the link.
    caf::reacts_to<envelope>,
    /// Send the queued messages, then close. The owner receives link_closed.
    caf::reacts_to<close_atom>,
    /// Close without waiting for the peer. Only messages that the socket accepts at once are sent.
    caf::reacts_to<cut_atom>>;

using link_owner_actor = caf::typed_actor<
    /// A link is up.
    caf::reacts_to<link_opened>,
    /// The peer sent a message.
    caf::reacts_to<link_received>,
    /// A link has ended or could not be opened.
    caf::reacts_to<link_closed>>;

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::link_opened)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::link_received)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::link_closed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::peers_expected)
