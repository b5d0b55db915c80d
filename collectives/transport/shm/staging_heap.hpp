// The memory in which a member stages tensors for the collectives that its callers run. It is the member's
// part of the shared segment, which all members of the host map. A block is reused only when no member
// reads it any more. The memory is therefore bounded by the number of concurrent operations, not by the
// size of the model.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "collectives/transport/shm/free_ranges.hpp"

namespace farandole {

/// Allocator for this member's staging memory. Thread-safe.
class staging_heap {
public:
  explicit staging_heap(std::span<std::byte> memory) : memory_(memory), free_(memory.size()) {}

  struct range {
    std::size_t at = 0; ///< from the start of the member's staging memory
    std::size_t bytes = 0;
  };

  /// Allocates whole cache lines. Returns nothing if there is no room now.
  std::optional<range> take(std::size_t bytes);
  /// Frees a block. No member may still read it, unless that member discards the data that it reads.
  void give_back(const range& which);
  /// Frees a block as soon as `unread()` returns true. take() polls `unread()`, which must not block.
  void give_back_when(const range& which, std::function<bool()> unread);
  /// Populates the pages of the first `bytes` bytes of the memory, which is cheaper than single page faults.
  void prefault(std::size_t bytes);

private:
  struct departing {
    range which;
    std::function<bool()> unread;
  };
  void collect();

  const std::span<std::byte> memory_;
  std::mutex mutex_;
  free_ranges free_;
  std::vector<departing> departing_; ///< blocks of give_back_when() that are not free yet
  std::size_t prefaulted_ = 0;
};

} // namespace farandole
