// A whole job in one thread: the real negotiator and fusion scheduler, the real worker of every member, real
// messages, and everything else simulated from one seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/world/network.hpp"
#include "tests/world/script.hpp"

namespace farandole::testing {

struct job_report {
  std::vector<std::string> problems; ///< empty: all went as it must
  std::uint64_t trace = 0;           ///< who ran when
  std::uint64_t sequence = 0;        ///< which bundles moved
  std::size_t bundles = 0;
  traffic sent;
  std::uint64_t ended_well = 0;
  std::uint64_t disagreed = 0;
  std::uint64_t taken_back = 0;
  std::uint64_t steps = 0; ///< messages taken by actors
  std::chrono::nanoseconds lasted{0};
};

job_report run_job(const job_options& options);

} // namespace farandole::testing
