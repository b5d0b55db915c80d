// Stalls: tensors that some ranks have requested and others have not for too long. Decides when a stall is worth a
// warning in the log, and when it ends the job.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace farandole {

struct stall {
  std::string name;
  std::chrono::nanoseconds waited{0};
  std::vector<std::int32_t> missing; ///< global ranks, ascending; joined ranks are not missing

  friend bool operator==(const stall&, const stall&) = default;
};

/// Text for users: one line for each missing rank, "3: [grad.a, grad.b, …]", with at most six names. Names that have
/// waited longer than `blamed` are marked "!"; none if `blamed` is zero.
std::string describe(std::span<const stall> stalls, std::chrono::nanoseconds blamed);

/// Decides how to react to the stalls of one process set.
class stall_rules {
public:
  struct findings {
    std::string warning; ///< for the log; empty: nothing to report
    std::string end;     ///< why the job must end; empty: it continues
  };

  std::chrono::nanoseconds warning{0}; ///< tensors that wait longer are reported
  std::chrono::nanoseconds shutdown{
      0}; ///< tensors that wait longer end the job; ignored unless it is longer than `warning`
  std::string warning_setting; ///< citation of the setting: "stall warning time (…) = 60 s"
  std::string shutdown_setting;
  std::string set; ///< "", or " of process set 3"

  bool ignores_shutdown() const { return shutdown.count() > 0 && shutdown <= warning; }

  /// The interval of the checks: a quarter of the warning time, at most `longest`.
  std::chrono::nanoseconds period(std::chrono::nanoseconds longest) const;

  /// `stalls` have waited longer than `warning`. Reports new ones at once, and known ones again each time `warning`
  /// has passed since the last report.
  findings judge(std::span<const stall> stalls, std::chrono::nanoseconds current_time);

private:
  std::chrono::nanoseconds last_report_{0};
  std::vector<std::string> reported_names_; ///< names in the last report, sorted
};

} // namespace farandole
