// A first-fit allocator of offsets in a block of memory. Alignment keeps allocations from sharing a page or
// a cache line. It never touches the memory, and it is not thread-safe: the owner of the memory
// synchronises the calls.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

namespace farandole {

class free_ranges {
public:
  explicit free_ranges(std::size_t bytes) : free_{{0, bytes}} {}

  /// Allocates `bytes` bytes and returns their offset, a multiple of `alignment`. Returns nothing if no
  /// free range is large enough.
  std::optional<std::size_t> claim(std::size_t bytes, std::size_t alignment);
  /// Frees a claimed range, or a part of one.
  void release(std::size_t at, std::size_t bytes);

private:
  std::map<std::size_t, std::size_t> free_; ///< size of each free range by offset; adjacent ranges are merged
};

} // namespace farandole
