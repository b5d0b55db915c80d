// Whether bytes at an address are memory of a device, according to the driver.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/driver/devices.hpp"
#include "cuda/driver/driver_functions.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// `context` is the primary one of the device, and current. See devices::check.
error check_device_memory(const driver_functions& driver, CUcontext context, const std::byte* memory,
                          std::size_t bytes, std::int32_t device, known_memory& region);

} // namespace farandole
