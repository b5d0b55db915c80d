// Exponential backoff for reconnecting to a peer that became unreachable: soon at first, so that a short
// absence costs little, then about every two seconds at most, until a time limit.
//
// While a peer is away, any process may take its address and answer without knowing the job's secret. So an
// authentication failure means that the address or the secret is wrong only before the first contact.
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

  /// The peer is unreachable, or still is: returns how long to wait before the next attempt. Empty if the
  /// time limit has passed. `uniform` in [0, 1) is jitter.
  std::optional<duration> next(time_point current_time, double uniform) {
    if (!since_) {
      since_ = current_time;
      calls_ = 0;
    } else if (current_time - *since_ >= longest_) {
      return std::nullopt;
    }
    return waits.before_try(calls_++, uniform);
  }
  /// Whether further attempts are useless. `untrusted`: the last attempt failed because the other end does
  /// not have the job's secret.
  bool in_vain(bool untrusted) const { return untrusted && !met_; }
  /// The peer has proved that it knows the secret, now or earlier in this process.
  void met() { met_ = true; }
  bool searching() const { return since_.has_value(); }
  void found() { since_.reset(); }

private:
  static constexpr backoff waits{std::chrono::milliseconds{50}, std::chrono::seconds{1}};

  duration longest_;
  int calls_ = 0; ///< attempts since the peer became unreachable
  std::optional<time_point> since_;
  bool met_ = false;
};

} // namespace farandole
