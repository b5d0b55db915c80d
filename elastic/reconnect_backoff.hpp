// When to look again for somebody who went away: soon at first, so that a short absence costs little, then
// every two seconds, and not for ever.
// Anybody may take the address of one that is away, and answer there without knowing the job's secret. Only
// before the first contact does that mean that the address or the secret is wrong.
#pragma once

#include <chrono>
#include <optional>

#include "messages/values/backoff.hpp"

namespace farandole {

class reconnect_backoff {
public:
  using time_point = std::chrono::steady_clock::time_point;
  using duration = std::chrono::nanoseconds;

  explicit reconnect_backoff(duration longest = {}) : longest_(longest) {}

  /// They are away, or still away: how long to wait before the next call. Nothing: they have been looked for
  /// long enough. `uniform` in [0, 1).
  std::optional<duration> next(time_point current_time, double uniform) {
    if (!since_) {
      since_ = current_time;
      calls_ = 0;
    } else if (current_time - *since_ >= longest_) {
      return std::nullopt;
    }
    return waits.before_try(calls_++, uniform);
  }
  /// Whether to call again is useless, after a call that ended because the other end has not our secret
  /// (`untrusted`), or for another reason.
  bool in_vain(bool untrusted) const { return untrusted && !met_; }
  /// They have proved the secret, now or to an earlier part of this process.
  void met() { met_ = true; }
  bool searching() const { return since_.has_value(); }
  void found() { since_.reset(); }

private:
  static constexpr backoff waits{std::chrono::milliseconds{50}, std::chrono::seconds{1}};

  duration longest_;
  int calls_ = 0; ///< since they were found to be away
  std::optional<time_point> since_;
  bool met_ = false;
};

} // namespace farandole
