#include "elastic/join_deadline.hpp"

#include <algorithm>
#include <utility>

namespace farandole {

setting join_timeout(const settings& values) {
  return values.flag(setting::elastic) ? setting::elastic_timeout : setting::start_timeout;
}

join_deadline::join_deadline(bool elastic, duration patience, time_point current_time)
    : elastic_(elastic), deadline_(current_time + patience) {}

void join_deadline::pause(time_point current_time) {
  const std::lock_guard guard(mutex_);
  if (elastic_ && !paused_since_)
    paused_since_ = current_time;
}

void join_deadline::resume(time_point since) {
  const std::lock_guard guard(mutex_);
  if (const auto paused = std::exchange(paused_since_, std::nullopt))
    deadline_ += std::max(since - *paused, time_point::duration::zero());
}

join_deadline::time_point join_deadline::deadline(time_point current_time) const {
  const std::lock_guard guard(mutex_);
  return paused_since_ ? deadline_ + (current_time - *paused_since_) : deadline_;
}

} // namespace farandole
