#include "elastic/join_deadline.hpp"

#include <algorithm>
#include <utility>

namespace farandole {

setting join_timeout(const settings& values) {
  return values.flag(setting::elastic) ? setting::elastic_timeout : setting::start_timeout;
}

join_deadline::join_deadline(bool elastic, duration patience, time_point now)
    : elastic_(elastic), until_(now + patience) {}

void join_deadline::pause(time_point now) {
  const std::lock_guard guard(guard_);
  if (elastic_ && !paused_since_)
    paused_since_ = now;
}

void join_deadline::resume(time_point since) {
  const std::lock_guard guard(guard_);
  if (const auto paused = std::exchange(paused_since_, std::nullopt))
    until_ += std::max(since - *paused, time_point::duration::zero());
}

join_deadline::time_point join_deadline::until(time_point now) const {
  const std::lock_guard guard(guard_);
  return paused_since_ ? until_ + (now - *paused_since_) : until_;
}

} // namespace farandole
