// A link: one authenticated connection to another process, and who owns it (actors/event_loop/link.hpp).
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
  caf::actor handle;     ///< a link_actor; kept by the owner, to send and to close
  std::string peer;      ///< "127.0.0.1:4711", for people
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
  bool untrusted = false; ///< the other end, which need not be the one that was meant, has not our secret
};

/// To a listener, from its owner: connections from the hosts of these peers ("10.0.0.1:4711"), and of no
/// others, are served before those of strangers from now on.
struct peers_expected {
  std::vector<std::string> peers;
};

using link_actor = caf::typed_actor<
    /// Send this to the peer; messages keep their order. A full queue closes the link.
    caf::reacts_to<envelope>,
    /// Send what is queued, then close; the owner hears link_closed.
    caf::reacts_to<close_atom>,
    /// The same, without waiting until the peer has taken it.
    caf::reacts_to<cut_atom>>;

using link_owner_actor = caf::typed_actor<
    /// A link is up.
    caf::reacts_to<link_opened>,
    /// The peer sent a message.
    caf::reacts_to<link_received>,
    /// A link is gone, or never came up.
    caf::reacts_to<link_closed>>;

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::link_opened)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::link_received)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::link_closed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::peers_expected)
