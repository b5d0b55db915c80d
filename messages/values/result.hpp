// The results of an operation besides the bytes that it writes into the caller's own output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace farandole {

struct result {
  /// Owned by the handle.
  /// - allgather: the concatenation of all inputs
  /// - alltoall: the rows received from each rank, one rank after another
  /// - reducescatter: this rank's segment, if the caller gave no output
  std::span<const std::byte> bytes;
  /// First extents. The output has as many rows as their sum.
  /// - allgather: of each rank's input
  /// - alltoall: of the rows received from each rank
  /// - reducescatter: one number, of this rank's segment
  std::vector<std::int64_t> first_dims;
  std::int32_t last_rank = -1;     ///< join: the rank that joined last
  std::vector<std::uint32_t> sets; ///< a change of process sets: ids of those that started
};

} // namespace farandole
