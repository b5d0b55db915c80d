// A picture of disturbed runs: how many steps a second were made, when each fault came, and for how long
// nobody trained because of it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/farandole/chaos/report.hpp"

namespace farandole::chaos {

/// Steps a second in equal parts of the time, from `begin_ms` on: those of the member that made most of them.
/// Steps are what the state counts as `step` or `batch`, else commits; between two commits they are even.
std::vector<double> step_rates(const timeline& history, double begin_ms, double part_ms, std::size_t parts);

/// As SVG. There is at least one run.
std::string plot_of(std::span<const run_result> runs, const std::string& title);

} // namespace farandole::chaos
