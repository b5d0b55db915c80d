// Messages to the process-set manager: process sets start, end and fail
// (actors/process_set/process_set_manager.hpp).
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
  operation_state_ptr asked; ///< this member's request; settled when the change is complete here
};

/// Process sets that failed on some member are restarted on all members.
struct sets_restarted {
  std::vector<set_restart> sets;
};

/// The data path of a process set on this member broke.
struct set_broken {
  std::uint32_t number = 0;
  error reason;
  /// True in the second report, which follows after a delay if the cause has not become known in the meantime.
  bool second_report = false;
};

/// The progress of a process set on this member.
struct set_progressed {
  enum class stage : std::uint8_t {
    built,   ///< the actors of the set run
    ready,   ///< its paths are connected
    ended,   ///< the leader's last schedule has arrived or, on a leader that is no member, was sent
    settled, ///< all pending operations of the set have failed
    drained, ///< the lane of the set has run all its bundles
  };
  std::uint32_t number = 0;
  stage reached = stage::ready;
};

using process_set_manager_actor = caf::typed_actor<
    /// Start and end these sets; settle this member's request once the change is complete here.
    caf::reacts_to<sets_changed>,
    /// End these sets at once and restart them.
    caf::reacts_to<sets_restarted>,
    /// From the path connector or the lane of a set; sent again to itself after a delay (INTERNAL).
    caf::reacts_to<set_broken>,
    /// From the actors of a set.
    caf::reacts_to<set_progressed>,
    /// End all sets in order; send drained_atom to the member once they have ended.
    caf::reacts_to<generation_ended>,
    /// Abort all sets.
    caf::reacts_to<generation_over>,
    /// Ask all sets whether their operations wait for these members.
    caf::reacts_to<processes_silent>,
    /// INTERNAL: a submission queue was busy; try again.
    caf::reacts_to<retry_atom>>;

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::sets_changed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::sets_restarted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::set_broken)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::set_progressed)
