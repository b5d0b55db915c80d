// Checksums of words in shared memory, which every member of a host can write: a mixing function that spreads
// each bit of a word over 32.
#pragma once

#include <cstdint>

namespace farandole {

/// A bijection; 0 stays 0, so memory of zeros carries its checksum.
constexpr std::uint32_t mix_word(std::uint32_t word) {
  word = (word ^ (word >> 16)) * 0x7feb352du;
  word = (word ^ (word >> 15)) * 0x846ca68bu;
  return word ^ (word >> 16);
}

} // namespace farandole
