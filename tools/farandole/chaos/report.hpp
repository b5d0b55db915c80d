// Tables of the results of disturbed runs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/farandole/chaos/comparison.hpp"
#include "tools/farandole/chaos/schedule.hpp"
#include "tools/farandole/chaos/timeline.hpp"

namespace farandole::chaos {

struct outcome {
  fault injected;
  double at_ms = 0; ///< on the monotonic clock that all processes of a machine share
  std::string hit;  ///< the victim, such as "rank 2 (slot 5)"; empty: the fault was left out
  std::string note;
  recovery got;
};

/// The result of one run of the script.
struct run_result {
  int code = 0;
  double begin_ms = 0, end_ms = 0; ///< from the time when all workers trained; on the same clock
  achievement achieved;
  std::vector<outcome> outcomes;
  timeline history;
};

/// A line of headings and one row for each fault.
std::string table_of_faults(std::span<const run_result> runs);
/// A line of headings and one row for each run. `undisturbed` is nullptr if there was no such run.
std::string table_of_runs(const run_result* undisturbed, std::span<const run_result> runs);

} // namespace farandole::chaos
