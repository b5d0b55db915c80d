// The invariants of a simulated job with heartbeats when the process of a member is stopped: no operation
// waits for the process longer than the operation timeout, no member stays in its generation longer than the
// stuck timeout, and no process that makes progress is reported as stopped.
#pragma once

#include <caf/all.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "elastic/stuck_rules.hpp"

namespace farandole::testing {

class silence_watch {
public:
  using time_point = caf::actor_clock::time_point;

  explicit silence_watch(const stuck_rules& rules) : rules_(rules) {}

  /// A process is stopped, and continues or ends.
  void stopped(std::int32_t slot, time_point current_time) { stopped_.try_emplace(slot, current_time); }
  void continued(std::int32_t slot, time_point current_time);
  /// Another fault lasts until the deadline, so the reaction to a stopped process may take longer.
  void disturbed(time_point deadline) { disturbed_until_ = std::max(disturbed_until_, deadline); }
  /// From now on heartbeats may be missing although a process makes progress.
  void links_disturbed() { links_disturbed_ = true; }

  /// The state of a member whose process runs.
  struct waiting_member {
    std::int32_t slot = 0;
    time_point in_since;                   ///< begin of its generation
    std::optional<time_point> waits_since; ///< begin of its oldest pending operation
  };
  /// The reason why `waiting` must no longer be in a generation with `other` or wait for it; empty if there
  /// is none.
  std::string objection(const waiting_member& waiting, std::int32_t other, time_point current_time) const;
  /// The reason why no member may now report that this process makes no progress; empty if a member may.
  std::string false_alarm(std::int32_t slot, time_point current_time) const;

private:
  stuck_rules rules_;
  std::map<std::int32_t, time_point> stopped_;   ///< begin of the stop, by slot
  std::map<std::int32_t, time_point> continued_; ///< end of the stop, by slot
  time_point disturbed_until_{};
  bool links_disturbed_ = false;
};

} // namespace farandole::testing
