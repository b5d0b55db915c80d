// Which seeds the simulated jobs run with: 1 to some number; `--seeds N` for another number of them, `--base
// B` for B + 1 to B + N, `--seed S` to play a single one again (FARANDOLE_WORLD_SEEDS, FARANDOLE_WORLD_BASE
// and FARANDOLE_WORLD_SEED do the same). `--keep-going` plays all of them, however many fail.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace farandole::testing {

/// The seeds to run where `usual` of them would be run without a word.
std::vector<std::uint64_t> seeds(std::size_t usual);

/// Whether to play on after a seed has failed (`--keep-going`), to find all that fail.
bool keep_going();

/// Calls `play` with each of them, on as many threads as there are cores: each job has one of its own.
/// Returns what went wrong, by seed; `play` returns an empty text where nothing did. The first seed that
/// fails ends it, unless keep_going(). Writes to standard error how far it has come, when there are many, and
/// a summary. Where the process is ended by a signal in the midst of it, as by an assertion, the seed is
/// told.
std::map<std::uint64_t, std::string> play_all(const std::vector<std::uint64_t>& seeds,
                                              const std::function<std::string(std::uint64_t seed)>& play);

} // namespace farandole::testing
