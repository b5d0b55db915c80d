// A member's process sets: which start, end and fail (actors/process_set/process_set_manager.hpp).
#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <vector>

#include "actors/event_loop/atoms.hpp"
#include "actors/submission/operation_state.hpp"
#include "messages/values/error.hpp"
#include "messages/wire/set_change.hpp"

namespace farandole {

struct generation_ended;
struct generation_over;
struct processes_silent;

/// All members have agreed on a change of the process sets.
struct sets_changed {
  std::vector<set_event> events;
  operation_state_ptr asked; ///< who asked for it here, to be settled when it has come about
};

/// Sets that have failed on some member start anew on all.
struct sets_restarted {
  std::vector<set_restart> sets;
};

/// The data path of a process set on this member broke.
struct set_broken {
  std::uint32_t number = 0;
  error reason;
  bool looked_at = false; ///< nobody has said why in the meantime
};

/// How far a process set on this member is.
struct set_told {
  enum class what : std::uint8_t {
    built,   ///< its actors run
    ready,   ///< its paths are connected
    ended,   ///< the leader's last schedule has come, or, on a leader that is no member, has gone out
    settled, ///< what was pending in it has failed
    drained, ///< its lane has run all it was given
  };
  std::uint32_t number = 0;
  what news = what::ready;
};

using process_set_manager_actor = caf::typed_actor<
    /// Start and end these; settle who asked once that is done here.
    caf::reacts_to<sets_changed>,
    /// End these at once and start them anew.
    caf::reacts_to<sets_restarted>,
    /// From the path connector or the lane of one set, and INTERNAL: a while ago.
    caf::reacts_to<set_broken>,
    /// From the actors of one set.
    caf::reacts_to<set_told>,
    /// End all sets in order; tell the member `drained` when they are gone.
    caf::reacts_to<generation_ended>,
    /// Make all sets give up.
    caf::reacts_to<generation_over>,
    /// Ask all sets whether their operations wait for these.
    caf::reacts_to<processes_silent>,
    /// INTERNAL: a submission queue was busy; try again.
    caf::reacts_to<retry_atom>>;

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::sets_changed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::sets_restarted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::set_broken)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::set_told)
