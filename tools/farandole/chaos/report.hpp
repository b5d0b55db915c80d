// What disturbed runs have shown, as tables.
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
  double at_ms = 0; ///< of the clock that all processes of a machine share
  std::string hit;  ///< "rank 2 (slot 5)"; empty: nobody was hit
  std::string note;
  recovery got;
};

/// How a run of the script went.
struct run_result {
  int code = 0;
  double begin_ms = 0, end_ms = 0; ///< since all workers trained; the clock as above
  achievement achieved;
  std::vector<outcome> outcomes;
  timeline history;
};

/// One row for each fault, with a line of headings.
std::string table_of_faults(std::span<const run_result> runs);
/// One row for each run. `undisturbed`: nullptr, there was none.
std::string table_of_runs(const run_result* undisturbed, std::span<const run_result> runs);

} // namespace farandole::chaos
