// What must follow in a simulated job whose members give signs of life when the process of a member is
// stopped: no operation waits for it for longer than the operation timeout, nobody stays in its generation
// for longer than the stuck timeout, and nobody who makes progress is taken for stopped.
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
  /// Until then something else goes wrong, and what follows from a stopped process may take longer.
  void disturbed(time_point deadline) { disturbed_until_ = std::max(disturbed_until_, deadline); }
  /// From now on signs of life may be missing although a process makes progress.
  void links_disturbed() { links_disturbed_ = true; }

  /// How far a member is whose process runs.
  struct waiting_member {
    std::int32_t slot = 0;
    time_point in_since;                   ///< in its generation
    std::optional<time_point> waits_since; ///< for its oldest operation
  };
  /// Why `waiting` may not be in a generation with `other` any more, or not wait any more; empty: it may.
  std::string objection(const waiting_member& waiting, std::int32_t other, time_point current_time) const;
  /// Why nobody may say now that this process makes no progress; empty: somebody may.
  std::string false_alarm(std::int32_t slot, time_point current_time) const;

private:
  stuck_rules rules_;
  std::map<std::int32_t, time_point> stopped_;   ///< since when, by slot
  std::map<std::int32_t, time_point> continued_; ///< likewise
  time_point disturbed_until_{};
  bool links_disturbed_ = false;
};

} // namespace farandole::testing
