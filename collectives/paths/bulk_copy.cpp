#include "collectives/paths/bulk_copy.hpp"

#include <cstring>

namespace farandole {

namespace {

/// Every 64-bit machine has registers for them.
using vector16 [[gnu::vector_size(16)]] = unsigned char;
constexpr std::size_t line = 64;
/// Shorter copies are the C library's: it begins faster.
constexpr std::size_t least_bytes = 4096;

vector16 load(const std::byte* from) {
  vector16 value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
void store(std::byte* to, vector16 value) {
  std::memcpy(to, &value, sizeof value);
}

} // namespace

void bulk_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t at = 0;
  if (bytes >= least_bytes)
    for (; at + line <= bytes; at += line) {
      // All loads before all stores, or the compiler makes a call of memcpy of it again.
      const vector16 a = load(from + at), b = load(from + at + 16), c = load(from + at + 32),
                     d = load(from + at + 48);
      store(to + at, a);
      store(to + at + 16, b);
      store(to + at + 32, c);
      store(to + at + 48, d);
    }
  if (at < bytes)
    std::memcpy(to + at, from + at, bytes - at);
}

} // namespace farandole
