// Which seeds the simulated jobs run with: 1 to some number; `--seeds N` for another number of them, `--base
// B` for B + 1 to B + N, `--seed S` to play a single one again. These are options of world_test.
// `--keep-going` plays all of them, however many fail.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace farandole::testing {

/// The seeds to run; `usual` is their number without options.
std::vector<std::uint64_t> seeds(std::size_t usual);

/// Whether to play on after a seed has failed (`--keep-going`), to find all that fail.
bool keep_going();

/// Calls `play` with each seed, on as many threads as there are cores; each job runs in one thread. Returns
/// the problems by seed; `play` returns an empty text if there are none. The first failing seed ends the run,
/// unless keep_going(). For many seeds it writes its progress and a summary to standard error. If a signal
/// ends the process, such as that of a failed assertion, it prints the seed.
std::map<std::uint64_t, std::string> play_all(const std::string& test,
                                              const std::vector<std::uint64_t>& seeds,
                                              const std::function<std::string(std::uint64_t seed)>& play);

} // namespace farandole::testing
