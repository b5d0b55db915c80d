// Gives a device its work for bundles that stay in its memory. All process sets of a runtime that work on one stream of a
// device share its launcher, and so the order in which the device does their work is that of the launches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "cuda/driver/devices.hpp"
#include "cuda/nccl/device_plan.hpp"
#include "messages/values/device.hpp"
#include "messages/values/error.hpp"

namespace farandole {

class communicator;

/// Identifies a GPU in all processes and on all hosts.
using gpu_uuid = std::array<char, 16>;

/// Called again and again between two looks at a library that works in the background. It may sleep, and ends the wait
/// by returning an error.
using wait_step = std::function<error()>;

/// For one thread at a time.
class device_launcher {
public:
  /// Device memory for tensors that move together, allocated when it is used for the first time.
  static constexpr std::size_t buffer_bytes = std::size_t{64} << 20;

  /// `unimplemented`, with the reason, if this build has no kernels.
  static expected<std::shared_ptr<device_launcher>> open(std::shared_ptr<devices> owner, std::int32_t device);
  virtual ~device_launcher() = default;

  /// `buffer_bytes` bytes, aligned to 256. A launch may use them until the next launch.
  virtual expected<std::byte*> buffer() = 0;

  /// Makes the device do the work behind the points `after`. Waits, at most as long as `step` allows, until NCCL has
  /// taken the calls, and not for the device. `via`: connected; null for a plan without calls. After an error the
  /// device may still do a part of the work, see progress().
  virtual expected<device_work> launch(const device_plan& plan, std::span<const device_point_ptr> after,
                                       communicator* via, const wait_step& step) = 0;

  /// Of all launches so far, also of those that failed in the middle.
  virtual device_progress progress() const = 0;

  /// The error with which the device has failed, if so. Asks the driver, so it is for waits that have become long.
  virtual error failure() const = 0;

  virtual std::int32_t device() const = 0;
  virtual gpu_uuid gpu() const = 0;
  virtual const std::shared_ptr<devices>& owner() const = 0;
};

/// The launchers of a process that are not in use, to be used again: freeing their memory would have to wait for the device.
/// Thread-safe.
class device_launchers {
public:
  /// An unused launcher of the device, or a new one. It comes back here with its last reference, from any thread; this object
  /// lives as long as the process.
  expected<std::shared_ptr<device_launcher>> lend(const std::shared_ptr<devices>& owner, std::int32_t device);

private:
  std::mutex mutex_;
  std::multimap<std::int32_t, std::shared_ptr<device_launcher>> unused_; ///< by device
};

} // namespace farandole
