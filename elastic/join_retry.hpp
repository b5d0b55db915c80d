// Whether a process that could not join its job tries once more. When a member is lost, or makes no progress
// any more, while the others connect, the generation ends for all of them, and none of them is to blame: in
// an elastic job they are in the next one. Not for ever: who never gets in is not helped by another try.
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

  /// Once `deadline` is over nothing is tried any more; `setting` says how long it is.
  join_retry(bool elastic, std::shared_ptr<const join_deadline> deadline, std::string setting)
      : elastic_(elastic), deadline_(std::move(deadline)), setting_(std::move(setting)) {}

  /// A try has ended so. Kind none: once more; otherwise what the caller is told.
  error after(const error& reason, time_point current_time) {
    const bool too_late = deadline_->over(current_time);
    // Somebody was waited for in vain; once it is too late, by this process for all.
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

  /// How long one try waits until all members have founded the process sets of the start; `patience` is that
  /// of a job whose members do not change. Where they may, a member that falls silent meanwhile is lost
  /// sooner or later, which ends the try, and nobody may have given up the whole job before that.
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
