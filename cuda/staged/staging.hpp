// Copies tensors between the memory of a device and pinned host memory, where any data path of the host can move them.
// The device copies on streams of its own, one for each direction, so that both directions and the host's work overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cuda/driver/devices.hpp"
#include "messages/values/device.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Host memory that a device reads and writes directly. It is kept until the last reference is gone and all copies that
/// use it have ended; then it is used again.
class pinned_memory {
public:
  virtual ~pinned_memory() = default;
  virtual std::span<std::byte> bytes() const = 0; ///< aligned to 64
};
using pinned_memory_ptr = std::shared_ptr<const pinned_memory>;

/// One piece to copy.
struct staged_piece {
  std::byte* device = nullptr;
  std::byte* host = nullptr; ///< in pinned memory
  std::size_t bytes = 0;
};

/// Serves one device. For one thread at a time.
class staging {
public:
  static expected<std::unique_ptr<staging>> open(std::shared_ptr<devices> owner, std::int32_t device);
  /// Does not wait for copies in progress: the memory that they use is kept until they have ended.
  virtual ~staging() = default;

  /// Pinned memory of at least `bytes`, never 0. Sizes are powers of two, from 64 KiB on, and memory is used again at its
  /// size. At most 256 MiB stay unused. `overloaded`, with the driver's reason, if there is no memory.
  virtual expected<pinned_memory_ptr> take(std::size_t bytes) = 0;

  /// Makes the device copy the pieces to host memory, behind the points `after`. The bytes are there when the progress
  /// has ended. Returns at once. After an error the device may still copy some of them, see progress().
  virtual expected<device_work> copy_out(std::span<const staged_piece> pieces,
                                         std::span<const device_point_ptr> after, pinned_memory_ptr host) = 0;
  /// Makes the device copy the pieces from host memory, behind the points `after`. Returns at once. Errors: as above.
  virtual expected<device_work> copy_in(std::span<const staged_piece> pieces,
                                        std::span<const device_point_ptr> after, pinned_memory_ptr host) = 0;

  /// Of all copies so far, also of those that failed in the middle.
  virtual device_progress progress() const = 0;

  /// The error with which the device has failed, if so: it then makes no progress any more. Asks the driver, so it is
  /// for waits that have become long.
  virtual error failure() const = 0;
  /// "GPU 0".
  virtual std::string name() const = 0;
};

} // namespace farandole
