// A job with process sets in one thread: of every member the real post, keeper of sets, supervised trees and
// all actors in them, but for the lane; links, lanes and framework threads are simulated from one seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/world/set_play.hpp"

namespace farandole::testing {

struct set_report {
  std::vector<std::string> problems; ///< empty: all went as it must
  std::uint64_t trace = 0;           ///< who ran when
  std::uint64_t sequence = 0;        ///< which bundles moved in which set
  std::uint64_t ended_well = 0;
  std::uint64_t taken_down = 0; ///< pending when their set ended
};

set_report run_sets(const set_options& options);

} // namespace farandole::testing
