// How long a device may work on something, counted from when it was first seen to have begun. Until then it waits for the
// caller's own work, which may take as long as it likes.
#pragma once

#include <chrono>

#include "messages/values/device.hpp"

namespace farandole {

class device_deadline {
public:
  using time_point = std::chrono::steady_clock::time_point;

  explicit device_deadline(std::chrono::nanoseconds timeout) : timeout_(timeout) {}

  /// Whether the device has worked for too long. To be asked until the work has ended.
  bool has_passed(const device_progress& progress, time_point current_time) {
    if (end_ == time_point::max() && progress.begun())
      end_ = current_time + timeout_;
    return current_time >= end_;
  }

private:
  std::chrono::nanoseconds timeout_;
  time_point end_ = time_point::max(); ///< until the device has begun, there is none
};

} // namespace farandole
