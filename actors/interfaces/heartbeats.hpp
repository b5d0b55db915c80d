// Signs of life between neighbours, and what follows where they stay away (actors/member/heartbeats.hpp).
#pragma once

#include <caf/all.hpp>

#include <vector>

#include "actors/event_loop/atoms.hpp"
#include "actors/event_loop/envelope_actor.hpp"
#include "messages/wire/heartbeat.hpp"

namespace farandole {

/// Members whose processes have made no progress for longer than a late core explains, ascending.
struct processes_silent {
  std::vector<silence> ranks;
};

/// Operations have waited for a silent member for longer than they may.
struct operations_held_up {
  silence by;
};

using heartbeats_actor = caf::typed_actor<
    /// A heartbeat of the member at the other end of a link.
    caf::reacts_to<envelope>,
    /// All members are connected: from now on the neighbours' silence counts, heard from before or not.
    caf::reacts_to<ready_atom>,
    /// INTERNAL: it is time to give a sign of life, and to look for those of the others.
    caf::reacts_to<tick_atom>>;

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::processes_silent)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::operations_held_up)
