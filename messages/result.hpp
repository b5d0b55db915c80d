// What an operation brings its caller besides the bytes written into the caller's own output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace farandole {

struct result {
  std::span<const std::byte> bytes;     ///< allgather: the concatenation, owned by the handle
  std::vector<std::int64_t> first_dims; ///< allgather: first extent brought by each rank
  std::int32_t last_rank = -1;          ///< join: the rank that joined last
};

} // namespace farandole
