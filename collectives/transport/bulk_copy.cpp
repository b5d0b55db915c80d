#include "collectives/transport/bulk_copy.hpp"

#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace farandole {

namespace {

/// Every 64-bit machine has registers of this size.
using vector16 [[gnu::vector_size(16)]] = unsigned char;
constexpr std::size_t line = 64;
/// Shorter copies use the C library, which starts faster.
constexpr std::size_t least_bytes = 4096;

vector16 load(const std::byte* from) {
  vector16 value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
void store(std::byte* to, vector16 value) {
  std::memcpy(to, &value, sizeof value);
}

void copy_by_vectors(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t at = 0;
  if (bytes >= least_bytes)
    for (; at + line <= bytes; at += line) {
      // All loads come before all stores; otherwise the compiler turns the loop back into a call of memcpy.
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

} // namespace

copy_way best_copy_way() {
#if defined(__x86_64__)
  constexpr unsigned features = 7, fast_short_strings = 1U << 4;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(features, 0, &a, &b, &c, &d) && (d & fast_short_strings))
    return copy_way::library;
#endif
  return copy_way::vectors;
}

void bulk_copy(copy_way way, std::byte* to, const std::byte* from, std::size_t bytes) {
  if (way == copy_way::vectors)
    copy_by_vectors(to, from, bytes);
  else if (bytes > 0)
    std::memcpy(to, from, bytes);
}

void bulk_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  static const copy_way copy_way = best_copy_way();
  bulk_copy(copy_way, to, from, bytes);
}

} // namespace farandole
