// Which parts of a piece of memory are free: first fit, in units that keep blocks from sharing a page or a
// cache line. A plain decision; who uses the memory guards it.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

namespace farandole {

class free_ranges {
public:
  explicit free_ranges(std::size_t bytes) : free_{{0, bytes}} {}

  /// Offset of a free range of so many bytes, at a multiple of `alignment`; empty where there is none.
  std::optional<std::size_t> claim(std::size_t bytes, std::size_t alignment);
  /// Of what was claimed, or a part of it.
  void release(std::size_t at, std::size_t bytes);

private:
  std::map<std::size_t, std::size_t> free_; ///< bytes by offset; no two touch
};

} // namespace farandole
