// Descriptors in shared memory: words that one member writes and other members act upon (offsets, sizes, row
// counts). Any process that maps the memory can change them at any time. A reader therefore copies each word
// once, verifies the copy against the checksum that follows the words, and uses only the copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace farandole {

/// Enters the checksum, so that words which another member or an earlier step left in the same memory do not
/// match.
struct words_origin {
  std::uint32_t member = 0;   ///< rank of the writer
  std::uint32_t id = 0;       ///< id of the cell; 0 in slots
  std::uint64_t sequence = 0; ///< number of the round or step
};

/// Size in memory of `words` words and their checksum.
constexpr std::size_t checked_bytes(std::size_t words) {
  return (words + 1) * sizeof(std::uint64_t);
}

/// A change of one word always changes the checksum. Any other change goes undetected with probability 2^-64.
std::uint64_t checksum_of(std::span<const std::uint64_t> words, const words_origin& origin);

/// Writes the words and their checksum. `to` has checked_bytes(words.size()) bytes and is aligned to eight
/// bytes. The caller publishes the words afterwards with a release operation of its own.
void write_checked(std::byte* to, std::span<const std::uint64_t> words, const words_origin& origin);

/// Copies the words that write_checked() wrote at `from`. Returns false if the checksum does not match; the
/// contents of `words` are then unspecified.
[[nodiscard]] bool read_checked(const std::byte* from, std::span<std::uint64_t> words,
                                const words_origin& origin);

} // namespace farandole
