// A picture of disturbed runs: the steps per second, the time of each fault, and the pause in training that it
// caused.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/farandole/chaos/report.hpp"

namespace farandole::chaos {

/// Steps per second in `parts` intervals of `part_ms`, from `begin_ms` on. Each value is the maximum over the
/// members. Steps are counted by the state's counter `step` or `batch`, or else by commits. The steps between
/// two commits are spread evenly.
std::vector<double> step_rates(const timeline& history, double begin_ms, double part_ms, std::size_t parts);

/// The picture as SVG. `runs` must not be empty.
std::string plot_of(std::span<const run_result> runs, const std::string& title);

} // namespace farandole::chaos
