// A job with process sets in one thread. The message router, the process-set manager and the supervised trees
// of every member are real; links, lanes and framework threads are simulated from one seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/world/set_play.hpp"

namespace farandole::testing {

struct set_report {
  std::vector<std::string> problems; ///< empty if the job was correct
  std::uint64_t trace = 0;           ///< hash of the order of all steps
  std::uint64_t sequence = 0;        ///< hash of the bundles of all sets
  std::uint64_t ended_well = 0;
  std::uint64_t taken_down = 0; ///< operations that were pending when their set ended
};

set_report run_sets(const set_options& options);

} // namespace farandole::testing
