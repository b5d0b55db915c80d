// A whole job in one thread: the real negotiator and fusion scheduler, the real worker of every member, real
// messages, and everything else simulated from one seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/world/network.hpp"
#include "tests/world/script.hpp"

namespace farandole::testing {

/// What the leader had to do while the members played some steps that hold nothing new.
struct warm_steps {
  std::int32_t steps = 0;
  message_count to_leader;
  message_count from_leader;
  std::chrono::nanoseconds busy{0};   ///< of this machine: its actors, and parsing what came
  std::chrono::nanoseconds lasted{0}; ///< in virtual time
};

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
  warm_steps warm; ///< from the third step on, until the last begins
};

job_report run_job(const job_options& options);

} // namespace farandole::testing
