// The chain of activities that determines how long a step takes. It is followed from the end of the step back to its
// begin: through what a rank did, and, where it waited for the call of another rank, to that rank.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tools/farandole/report/job_steps.hpp"
#include "tools/farandole/report/wait_division.hpp"

namespace farandole {

struct path_segment {
  std::int32_t rank = -1;
  time_use use = time_use::outside;
  trace_time length{0};
  std::optional<std::uint32_t> tensor; ///< of the call that follows, or for which the rank waited
};

/// In order of time. Adjacent segments of the same rank and use are one, with the tensor of the last. `parts`: by trace.
std::vector<path_segment> critical_path(std::span<const rank_trace> traces, const matched_calls& matched,
                                        const std::vector<std::vector<wait_part>>& parts,
                                        const job_step& step);

} // namespace farandole
