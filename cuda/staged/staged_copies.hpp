// The calls of the driver that copy pieces between host and device.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/driver/device_stream.hpp"
#include "cuda/staged/staging.hpp"

namespace farandole {

enum class copy_direction : std::uint8_t { to_host, to_device };

/// Submits copies of the pieces to `handle`, the stream of `owner`.
error copy_pieces(const device_stream& owner, CUstream handle, std::span<const staged_piece> pieces,
                  copy_direction direction);

} // namespace farandole
