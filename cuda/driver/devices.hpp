// The devices (GPUs) of this process as Farandole uses them: whether memory belongs to one, and points in the work of
// their streams. One object serves the process. It uses the primary contexts of the devices, which frameworks use too,
// and takes no device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "messages/values/device.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Memory of a device that the driver has described. It holds for one call of a user, who must not free the memory of
/// tensors meanwhile, and spares asking the driver again for each tensor of a group.
struct known_memory {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  std::int32_t device = -1;

  bool holds(const std::byte* memory, std::size_t bytes, std::int32_t of_device) const {
    return device == of_device && memory >= begin && memory <= end &&
           bytes <= static_cast<std::size_t>(end - memory);
  }
};

/// Thread-safe.
class devices {
public:
  /// Loads and initialises the driver, which stays loaded until the process ends. The error names the missing or
  /// outdated library, and the remedy. Blocks for as long as the driver takes to initialise, up to seconds.
  static expected<std::shared_ptr<devices>> open(const std::string& library = "libcuda.so.1");
  /// Whether this build can use devices at all, where there is a driver.
  static bool are_built_in();
  virtual ~devices() = default;

  /// Number of devices that this process may use (CUDA_VISIBLE_DEVICES).
  virtual std::int32_t count() const = 0;

  /// Kind `none` if these bytes are memory of the device, or managed memory. Otherwise `invalid_argument`, with the
  /// index of the device, the address, and the kind of memory that is there instead. Calls the driver only if `region`
  /// does not hold them, and then sets it to the memory around them.
  virtual error check(const std::byte* memory, std::size_t bytes, std::int32_t device,
                      known_memory& region) = 0;

  /// The point at which a tensor with this location is ready; null for device_readiness::complete. `unimplemented`
  /// while its stream is being captured, or if the driver lacks the function (cuCtxRecordEvent, for
  /// device_readiness::context). Never waits for the device.
  virtual expected<device_point_ptr> ready_point(const tensor_memory& location) = 0;

  /// Makes all work that `stream` of the device is given from now on wait for the point. The host does not wait. Null
  /// stream: the default stream; null point: nothing to do.
  virtual error wait(std::int32_t device, void* stream, const device_point_ptr& point) = 0;
};

} // namespace farandole
