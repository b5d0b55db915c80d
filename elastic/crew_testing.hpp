// What the tests of the crew begin with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "elastic/crew.hpp"

namespace farandole::testing {

using starts = std::vector<crew::start>;
using slots = std::vector<std::int32_t>;

inline const crew::time_point t0{};

inline crew_options between(std::int32_t fewest, std::int32_t processes, std::int32_t most) {
  crew_options options;
  options.processes = processes;
  options.fewest = fewest;
  options.most = most;
  return options;
}

/// Whether one of its lines has this part.
inline bool says(const crew::step& step, const std::string& part) {
  for (const auto& line : step.lines)
    if (line.find(part) != std::string::npos)
      return true;
  return false;
}

} // namespace farandole::testing
