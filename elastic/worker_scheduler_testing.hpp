// Helpers of the worker scheduler's tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elastic/worker_scheduler.hpp"

namespace farandole::testing {

using starts = std::vector<worker_scheduler::start>;
using slots = std::vector<std::int32_t>;

inline const worker_scheduler::time_point t0{};

inline worker_scheduler_options between(std::int32_t fewest, std::int32_t processes, std::int32_t limit) {
  worker_scheduler_options options;
  options.processes = processes;
  options.fewest = fewest;
  options.limit = limit;
  return options;
}

/// Whether one of the step's lines contains this text.
inline bool says(const worker_scheduler::step& step, const std::string& part) {
  for (const auto& line : step.lines)
    if (line.find(part) != std::string::npos)
      return true;
  return false;
}

} // namespace farandole::testing
