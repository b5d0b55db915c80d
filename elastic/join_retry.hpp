// Decides whether a process that could not join its job tries again. If a member is lost or stops making
// progress while the members connect, the generation ends for all of them although none of the others failed:
// in an elastic job they retry and join the next generation. The retries end at the deadline or after `limit`
// tries, because a process that failed so often will not succeed by another try.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "elastic/join_deadline.hpp"
#include "elastic/retry_delay.hpp"
#include "messages/values/error.hpp"

namespace farandole {

class join_retry {
public:
  using time_point = std::chrono::steady_clock::time_point;

  /// No try starts after `deadline`; `setting` is its setting and value, for the error.
  join_retry(bool elastic, std::shared_ptr<const join_deadline> deadline, std::string setting)
      : elastic_(elastic), deadline_(std::move(deadline)), setting_(std::move(setting)) {}

  /// A try ended with `reason`. Returns kind none if the caller tries again, otherwise the caller's error.
  error after(const error& reason, time_point current_time) {
    const bool too_late = deadline_->over(current_time);
    // Before the deadline, a timeout means that some member did not arrive; after it, the timeout is final.
    const bool held_up = reason.kind == error_kind::timed_out && !too_late;
    if (!elastic_ || (reason.kind != error_kind::disconnected && !held_up))
      return reason;
    ++ended_;
    if (!too_late && ended_ < limit)
      return {};
    return {error_kind::timed_out,
            "the job did not come together " +
                (too_late ? "within " + setting_ : std::to_string(limit) + " times in a row") +
                ": each time a member was lost before all were connected; the last time, " + reason.text};
  }

  /// How long to wait before the try that after() allowed; never beyond the deadline. `uniform` in [0, 1).
  std::chrono::nanoseconds delay(time_point current_time, double uniform) const {
    const auto left =
        std::max(deadline_->deadline(current_time) - current_time, time_point::duration::zero());
    return std::min<std::chrono::nanoseconds>(retry_delay(ended_, uniform), left);
  }

  /// Until when one try waits for all members to found the initial process sets. A job whose members do not
  /// change waits for `patience`. An elastic job waits until the deadline: a member that falls silent
  /// meanwhile is eventually lost, which ends the try, and no other member may give up the job before that.
  time_point founding_until(time_point current_time, time_point::duration patience) const {
    return elastic_ ? deadline_->deadline(current_time) : current_time + patience;
  }

  static constexpr int limit = 100;

private:
  bool elastic_;
  std::shared_ptr<const join_deadline> deadline_;
  std::string setting_;
  int ended_ = 0;
};

} // namespace farandole
