// The operation timeout limits the time without progress, not the duration of an operation: a large one may take
// minutes while its bytes move. A path gets the deadline of an operation that makes no progress at all, derives the
// timeout from it when the operation begins, and extends the deadline of each wait by this rule.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace farandole {

/// `timeout` after `current_time`, or never if that is too far away.
inline std::chrono::steady_clock::time_point
deadline_after(std::chrono::steady_clock::time_point current_time, std::chrono::nanoseconds timeout) {
  constexpr auto never = std::chrono::steady_clock::time_point::max();
  return timeout < never - current_time ? current_time + timeout : never;
}

/// The deadline of one wait. A wait begins with its full timeout, because the one before it has succeeded.
class progress_deadline {
public:
  using time_point = std::chrono::steady_clock::time_point;
  using duration = std::chrono::nanoseconds;

  /// `given`: the deadline of the operation, before which no wait fails. `timeout`: the allowed time without progress;
  /// zero or less if progress does not extend the deadline.
  progress_deadline(time_point given, duration timeout, time_point current_time)
      : timeout_(timeout), at_(given) {
    progressed(current_time);
  }
  void progressed(time_point current_time) { at_ = std::max(at_, deadline_after(current_time, timeout_)); }
  /// When the wait fails if there is no further progress.
  time_point at() const { return at_; }

private:
  duration timeout_;
  time_point at_;
};

/// The timeout of a bundle that a library moves in one call, which does not tell progress. It is longer for a large
/// bundle, so that none fails for its size alone: one timeout, and one more for each GiB.
inline std::chrono::nanoseconds timeout_of_call(std::chrono::nanoseconds timeout, std::size_t bytes) {
  constexpr std::size_t bytes_of_timeout = std::size_t{1} << 30;
  const auto times = static_cast<std::int64_t>(1 + bytes / bytes_of_timeout);
  return timeout < std::chrono::nanoseconds::max() / times ? timeout * times
                                                           : std::chrono::nanoseconds::max();
}

} // namespace farandole
