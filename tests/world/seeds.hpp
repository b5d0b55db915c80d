// Which seeds the simulated jobs run with: `--seeds N` for another number of them, `--seed S` to play a
// single one again (FARANDOLE_WORLD_SEEDS and FARANDOLE_WORLD_SEED do the same).
#pragma once

#include <cstdint>
#include <vector>

namespace farandole::testing {

/// The seeds to run where `usual` of them would be run without a word.
std::vector<std::uint64_t> seeds(std::size_t usual);

} // namespace farandole::testing
