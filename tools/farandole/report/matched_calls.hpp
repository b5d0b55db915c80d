// Finds the calls of different ranks that belong to one collective operation. Records begin at different points, so the
// n-th call of a name in one record may be another operation than in the next. Rounds of the fast path and sequence
// numbers of bundles are the same on all ranks, so they tell by how much two records are shifted.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tools/farandole/report/rank_trace.hpp"

namespace farandole {

struct matched_operation {
  std::uint32_t tensor = 0;
  std::int64_t number = 0;                       ///< ascending with time, among the operations of the tensor
  std::vector<std::optional<std::size_t>> calls; ///< by trace: position in its calls
};

struct matched_calls {
  std::vector<matched_operation> operations;
  std::vector<std::vector<std::size_t>> operation_of; ///< by trace and call: position in `operations`
};

/// A call for which no partner is found is an operation of its own.
matched_calls match_calls(std::span<const rank_trace> traces, std::size_t tensors);

} // namespace farandole
