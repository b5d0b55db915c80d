// What follows when the process of a member makes no progress: it is stopped, waits for a disk, or is swapped
// out. Operations that wait for it fail with the operation timeout, wherever they wait. In an elastic job
// that says so, such a member is lost as soon as it has been silent for long enough, whether anybody waits or
// not.
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
  duration stuck_timeout{0};     ///< zero: nobody is lost for being silent
  std::string stuck_setting;

  /// As the settings of the job say.
  static stuck_rules of(const settings& values);

  /// How often every member gives a sign of life: often enough to tell in time, and seldom enough that an
  /// idle process may rest.
  duration period() const;
  /// What is shorter may only be a late core.
  duration minimum() const { return 3 * period(); }

  /// Who is lost: the longest silent one.
  std::optional<silence> lost(std::span<const silence> silent) const;
  /// Why operations cannot complete of which the oldest has waited for so long, for members among `silent`:
  /// the longest silent one.
  std::optional<silence> holds_up(std::span<const silence> silent, duration waited) const;
  /// Who is behind the failure of a data path: the longest silent one. `late`: this member has waited too
  /// long itself, or its clock has jumped, which adds two periods to every silence; otherwise a neighbour has
  /// left the operation, which may have waited for the same member a little longer, so half of the operation
  /// timeout is silence enough.
  std::optional<silence> behind_failure(std::span<const silence> silent, bool late) const;

  /// "its process has made no progress for 31.5 s (it is stopped, …)", to follow "rank 2 on host a".
  static std::string complaint(const silence& silent_member);
  /// The same with the setting by which it is lost.
  std::string loss_complaint(const silence& silent_member) const;
  /// The error of operations that it holds up; `member`: "rank 2 on host a".
  std::string timeout_complaint(const std::string& member, const silence& silent_member) const;
};

} // namespace farandole
