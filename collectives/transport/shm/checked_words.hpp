// Descriptors in shared memory: words that one member writes and the others act upon (addresses, places,
// counts of rows). Any process that has the memory mapped can change them at any time. So a reader copies
// each word once, compares the copy with the checksum behind it, and uses nothing but the copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace farandole {

/// Part of the checksum: what another member, or an earlier step, left in the same place does not match.
struct words_origin {
  std::uint32_t member = 0;   ///< who writes them
  std::uint32_t id = 0;       ///< of the cell; 0 in slots
  std::uint64_t sequence = 0; ///< round or step
};

/// What `words` of them take in memory, their checksum included.
constexpr std::size_t checked_bytes(std::size_t words) {
  return (words + 1) * sizeof(std::uint64_t);
}

/// A change of one word always changes it, any other change but for one in 2^64.
std::uint64_t checksum_of(std::span<const std::uint64_t> words, const words_origin& origin);

/// `to`: checked_bytes(words.size()), aligned to eight. Not yet published.
void write_checked(std::byte* to, std::span<const std::uint64_t> words, const words_origin& origin);

/// Copies what write_checked() has written there. False when the checksum does not match: then `words` holds
/// anything.
[[nodiscard]] bool read_checked(const std::byte* from, std::span<std::uint64_t> words,
                                const words_origin& origin);

} // namespace farandole
