#include "collectives/transport/shm/checked_words.hpp"

#include <cassert>

namespace farandole {

namespace {

/// A bijection in each argument: for a fixed sum every word gives a different result, and for a fixed word
/// every sum does.
constexpr std::uint64_t add_word(std::uint64_t sum, std::uint64_t word) {
  sum = (sum ^ word) * 0x9fb21c651e98df25u;
  return sum ^ (sum >> 32);
}

} // namespace

std::uint64_t checksum_of(std::span<const std::uint64_t> words, const words_origin& origin) {
  // The initial value ensures that zero-filled memory does not carry a valid checksum.
  auto sum = add_word(0x8ebc6af09c88c6e3u, std::uint64_t{origin.member} << 32 | origin.id);
  sum = add_word(sum, origin.sequence);
  for (const auto word : words)
    sum = add_word(sum, word);
  return sum;
}

// A reader may read the memory concurrently, in violation of the protocol, so every access is atomic.
void write_checked(std::byte* to, std::span<const std::uint64_t> words, const words_origin& origin) {
  assert(reinterpret_cast<std::uintptr_t>(to) % alignof(std::uint64_t) == 0);
  auto* const shared = reinterpret_cast<std::uint64_t*>(to);
  for (std::size_t i = 0; i < words.size(); ++i)
    __atomic_store_n(shared + i, words[i], __ATOMIC_RELAXED);
  __atomic_store_n(shared + words.size(), checksum_of(words, origin), __ATOMIC_RELAXED);
}

bool read_checked(const std::byte* from, std::span<std::uint64_t> words, const words_origin& origin) {
  assert(reinterpret_cast<std::uintptr_t>(from) % alignof(std::uint64_t) == 0);
  const auto* const shared = reinterpret_cast<const std::uint64_t*>(from);
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = __atomic_load_n(shared + i, __ATOMIC_RELAXED);
  return __atomic_load_n(shared + words.size(), __ATOMIC_RELAXED) == checksum_of(words, origin);
}

} // namespace farandole
