// Tensors that wait too long, and for whom: some ranks have asked for them and others have not. And when that
// is worth a line in the log, and when the end of the job.
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
  std::vector<std::int32_t> missing; ///< global ranks, ascending; those that have joined are not missed

  friend bool operator==(const stall&, const stall&) = default;
};

/// For people: one line a missing rank, "3: [grad.a, grad.b, …]", at most six names each; names that have
/// waited longer than `blamed` (never, if zero) are marked "!".
std::string describe(std::span<const stall> stalls, std::chrono::nanoseconds blamed);

/// What to make of the stalls of one process set.
class stall_rules {
public:
  struct verdict {
    std::string warning; ///< for the log; empty: nothing new
    std::string end;     ///< why the job cannot go on; empty: it can
  };

  std::chrono::nanoseconds warning{0}; ///< what waits longer is spoken of
  std::chrono::nanoseconds shutdown{
      0};                      ///< what waits longer ends the job; nothing does where it is not longer
  std::string warning_setting; ///< cited: "stall warning time (…) = 60 s"
  std::string shutdown_setting;
  std::string set; ///< "", or " of process set 3"

  bool ignores_shutdown() const { return shutdown.count() > 0 && shutdown <= warning; }

  /// How often to look: a quarter of the warning time, at most `longest`.
  std::chrono::nanoseconds period(std::chrono::nanoseconds longest) const;

  /// `stalls` have waited longer than `warning`. Speaks of new ones at once, and of old ones again when as
  /// much time has passed as before the first word.
  verdict judge(std::span<const stall> stalls, std::chrono::nanoseconds current_time);

private:
  std::chrono::nanoseconds spoken_{0};
  std::vector<std::string> values_; ///< names that were spoken of then, sorted
};

} // namespace farandole
