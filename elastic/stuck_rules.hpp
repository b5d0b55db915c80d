// The consequences when the process of a member makes no progress: it is stopped, waits for a disk, or is
// swapped out. Operations that wait for it fail with the operation timeout, wherever they wait. In an elastic
// job with a stuck timeout, such a member is lost as soon as it has been silent for that long, even if no
// operation waits for it.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>

#include "messages/wire/heartbeat.hpp"

namespace farandole {

class settings;

class stuck_rules {
public:
  using duration = std::chrono::nanoseconds;

  duration operation_timeout = std::chrono::seconds{30};
  std::string operation_setting; ///< cited: "operation timeout (…) = 30 s"
  duration stuck_timeout{0};     ///< zero: silence alone causes no loss
  std::string stuck_setting;

  /// The rules according to the settings of the job.
  static stuck_rules of(const settings& values);

  /// The interval between heartbeats: short enough to detect a silence in time, and long enough that an idle
  /// process may rest.
  duration period() const;
  /// A shorter silence may only be a scheduling delay.
  duration minimum() const { return 3 * period(); }

  /// The member to treat as lost: the longest silent one, if it has been silent for long enough.
  std::optional<silence> lost(std::span<const silence> silent) const;
  /// The member that holds up pending operations, the oldest of which has waited for `waited`: the longest
  /// silent one. Empty if it has not been silent, or no operation has waited, for the operation timeout.
  std::optional<silence> holds_up(std::span<const silence> silent, duration waited) const;
  /// The member that caused the failure of a data path: the longest silent one, if it has been silent for long
  /// enough. `late`: this member's own wait has timed out, or its clock has jumped, which adds two periods to
  /// every silence. Otherwise a neighbour has left the operation. That neighbour may have waited for the same
  /// member a little longer, so a silence of half the operation timeout is enough.
  std::optional<silence> behind_failure(std::span<const silence> silent, bool late) const;

  /// "its process has made no progress for 31.5 s (it is stopped, …)", to follow "rank 2 on host a".
  static std::string complaint(const silence& silent_member);
  /// complaint(), with the setting that makes the member lost.
  std::string loss_complaint(const silence& silent_member) const;
  /// The error of operations that the member holds up; `member`: "rank 2 on host a".
  std::string timeout_complaint(const std::string& member, const silence& silent_member) const;
};

} // namespace farandole
