// How long a device may work on something, counted from when it was first seen to have begun. Until then it waits for the
// caller's own work, which may take as long as it likes.
#pragma once

#include <chrono>
#include <optional>

#include "messages/values/device.hpp"

namespace farandole {

class device_deadline {
public:
  using time_point = std::chrono::steady_clock::time_point;

  explicit device_deadline(std::chrono::nanoseconds timeout) : timeout_(timeout) {}

  /// Whether the device has worked for too long. To be asked until the work has ended.
  bool has_passed(const device_progress& progress, time_point current_time) {
    if (!begun_ && progress.begun())
      begun_ = current_time;
    return begun_ && current_time - *begun_ >= timeout_;
  }

private:
  std::chrono::nanoseconds timeout_;
  std::optional<time_point> begun_;
};

} // namespace farandole
