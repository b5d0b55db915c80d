// Moves bundles of tensors in the memory of a device over the paths of the host: the device copies each chunk to pinned
// host memory, a path moves it, and the device copies the results back. Chunks overlap: while a path moves one, the
// device copies the next one out and the previous one back.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "actors/gpu/staged_plan.hpp"
#include "collectives/transport/path.hpp"
#include "cuda/staged/staging.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// When a wait for a device is so long that the driver is asked whether the device has failed: it then writes no more
/// words. Once a second, so that a wait of the usual length makes no call of the driver.
class failure_questions {
public:
  using time_point = std::chrono::steady_clock::time_point;

  bool is_time(time_point current_time) {
    if (!next_ || current_time < *next_) {
      next_ = next_.value_or(current_time + interval);
      return false;
    }
    next_ = current_time + interval;
    return true;
  }
  /// The device has made progress.
  void restart() { next_.reset(); }

private:
  static constexpr std::chrono::seconds interval{1};
  std::optional<time_point> next_;
};

/// Used on the thread of one lane.
class staged_runner {
public:
  /// Opens the copies of a device, when the first bundle needs them.
  using opener = std::function<expected<std::unique_ptr<staging>>(std::int32_t device)>;
  /// Runs a bundle in host memory.
  using host_run = std::function<error(work& bundle, const deadline_and_abort& deadline)>;

  struct options {
    std::size_t rank = 0; ///< of this member, within the set
    std::size_t chunk_bytes = std::size_t{4} << 20;
    std::chrono::nanoseconds operation_timeout{0}; ///< for each copy and each chunk
    std::function<void()> while_waiting = [] {};   ///< called again and again while the device copies
  };
  staged_runner(opener open, const options& options) : open_(std::move(open)), options_(options) {}

  /// Moves the bundle, as path::run(). The deadline does not pass before the tensors are ready: the work of the caller's
  /// stream may take as long as it likes.
  outcome run(const work& bundle, const deadline_and_abort& deadline, const host_run& run_on_host);

  /// The error with which a device has failed, if so. Asks the driver, so it is for waits that have become long.
  error failure() const;

private:
  struct chunk_in_flight;
  class transfer;

  expected<staging*> staging_of(std::int32_t device);

  opener open_;
  options options_;
  std::map<std::int32_t, std::unique_ptr<staging>> opened_;
};

} // namespace farandole
