// What an operation brings its caller besides the bytes written into the caller's own output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace farandole {

struct result {
  /// allgather: the concatenation; alltoall: what came from each rank, one after another; reducescatter: the
  /// own segment, where the caller gave no output. Owned by the handle.
  std::span<const std::byte> bytes;
  /// First extents. allgather: brought by each rank; alltoall: come from each rank; reducescatter: of the own
  /// segment, one number. What comes out has as many rows as they sum to.
  std::vector<std::int64_t> first_dims;
  std::int32_t last_rank = -1;     ///< join: the rank that joined last
  std::vector<std::uint32_t> sets; ///< a change of process sets: ids of those that started
};

} // namespace farandole
