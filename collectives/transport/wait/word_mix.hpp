// Checksums of words in shared memory, which every member of a host can overwrite. The mixing function
// spreads each bit of a word over 32 bits.
#pragma once

#include <cstdint>

namespace farandole {

/// A bijection that maps 0 to 0, so zeroed memory has a valid checksum.
constexpr std::uint32_t mix_word(std::uint32_t word) {
  word = (word ^ (word >> 16)) * 0x7feb352du;
  word = (word ^ (word >> 15)) * 0x846ca68bu;
  return word ^ (word >> 16);
}

} // namespace farandole
