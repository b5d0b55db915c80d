// Which seeds the simulated jobs run with: 1 to some number; `--seeds N` for another number of them, `--base
// B` for B + 1 to B + N, `--seed S` to play a single one again (FARANDOLE_WORLD_SEEDS, FARANDOLE_WORLD_BASE
// and FARANDOLE_WORLD_SEED do the same).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace farandole::testing {

/// The seeds to run where `usual` of them would be run without a word.
std::vector<std::uint64_t> seeds(std::size_t usual);

/// Calls `play` with each of them, on as many threads as there are cores: each job has one of its own. Where
/// the process is ended by a signal in the midst of it, as by an assertion, the seed is told.
void play_all(const std::vector<std::uint64_t>& seeds, const std::function<void(std::uint64_t seed)>& play);

} // namespace farandole::testing
