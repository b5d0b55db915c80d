// The results of an operation besides the bytes that it writes into the caller's own output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "messages/values/dtype.hpp"

namespace farandole {

/// Whether the result is of the kind that the caller asked for. Another kind is possible if the caller contributed nothing.
enum class result_kind : std::uint8_t {
  requested,
  none, ///< no member contributed
  rows  ///< the caller was absent, and those that contributed have gathered other rows than it asked for
};

struct result {
  result_kind kind = result_kind::requested;
  /// With `result_kind::rows`: the type of the elements, and how many each row has.
  farandole::dtype dtype = farandole::dtype::uint8;
  std::int64_t row_elements = 0;
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
