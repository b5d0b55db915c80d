// A whole job in one thread: the negotiator, the fusion scheduler, the set client of every member and the
// messages are real, and all else is simulated from one seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/world/network.hpp"
#include "tests/world/script.hpp"

namespace farandole::testing {

/// The leader's load during steps without new tensors.
struct warm_steps {
  std::int32_t steps = 0;
  message_count to_leader;
  message_count from_leader;
  std::chrono::nanoseconds busy{0};   ///< processor time of its actors and for parsing messages
  std::chrono::nanoseconds lasted{0}; ///< in virtual time
};

struct job_report {
  std::vector<std::string> problems; ///< empty if the job was correct
  std::uint64_t trace = 0;           ///< hash of the order of all steps
  std::uint64_t sequence = 0;        ///< hash of the bundles
  std::size_t bundles = 0;
  traffic sent;
  std::uint64_t ended_well = 0;
  std::uint64_t disagreed = 0;
  std::uint64_t taken_back = 0;
  std::uint64_t without_result = 0; ///< no member contributed
  std::uint64_t as_rows = 0;        ///< operations that became gathers of other members' rows
  std::uint64_t steps = 0;          ///< messages taken by actors
  std::chrono::nanoseconds lasted{0};
  warm_steps warm; ///< from the third step on, until the last begins
};

job_report run_job(const job_options& options);

} // namespace farandole::testing
