// Messages of the failure detector: heartbeats between neighbours, and reports of processes that are silent
// (actors/member/heartbeats.hpp).
#pragma once

#include <caf/all.hpp>

#include <vector>

#include "actors/event_loop/atoms.hpp"
#include "actors/event_loop/envelope_actor.hpp"
#include "messages/wire/heartbeat.hpp"

namespace farandole {

/// Members whose processes have made no progress for longer than a scheduling delay can explain, by ascending rank.
struct processes_silent {
  std::vector<silence> ranks;
};

/// Operations have waited for a silent member for longer than the operation timeout.
struct operations_held_up {
  silence by;
};

using heartbeats_actor = caf::typed_actor<
    /// A heartbeat or a reading of the clock of the member at the other end of a link.
    caf::reacts_to<envelope>,
    /// All members are connected: from now on the silence of every neighbour counts, even if none of its heartbeats
    /// has arrived yet.
    caf::reacts_to<ready_atom>,
    /// INTERNAL: it is time to send a heartbeat and to check the heartbeats of the others.
    caf::reacts_to<tick_atom>>;

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::processes_silent)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::operations_held_up)
