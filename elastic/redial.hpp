// When to look again for somebody who went away: soon at first, so that a short absence costs little, then
// every two seconds, and not for ever. Who waits longer by chance than others spreads the calls of many.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace farandole {

class redial {
public:
  using time_point = std::chrono::steady_clock::time_point;
  using duration = std::chrono::nanoseconds;

  explicit redial(duration longest = {}) : longest_(longest) {}

  /// They are away, or still away: how long to wait before the next call. Nothing: they have been looked for
  /// long enough. `uniform` in [0, 1).
  std::optional<duration> next(time_point now, double uniform) {
    if (!since_) {
      since_ = now;
      wait_ = std::chrono::milliseconds{50};
    } else if (now - *since_ >= longest_) {
      return std::nullopt;
    }
    const auto wait = std::chrono::duration_cast<duration>(wait_ * (1 + uniform));
    wait_ = std::min<duration>(2 * wait_, std::chrono::seconds{1});
    return wait;
  }
  bool searching() const { return since_.has_value(); }
  void found() { since_.reset(); }

private:
  duration longest_;
  duration wait_{};
  std::optional<time_point> since_;
};

} // namespace farandole
