// The start of a driver that was loaded: it is initialised and has GPUs, or the error says why not.
#pragma once

#include <cstdint>

#include "cuda/driver/driver_functions.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// The number of GPUs that this process may use, at least 1. Blocks for as long as the driver takes to initialise.
expected<std::int32_t> start_driver(const driver_functions& driver);

} // namespace farandole
