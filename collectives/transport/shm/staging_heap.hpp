// Where a member stages tensors for the collectives that its callers run: its part of the segment, which all
// members of the host have mapped. A place is given out again only when no member reads it any more. So the
// memory is bounded by what is under way at a time and not by the model.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "collectives/transport/shm/free_ranges.hpp"

namespace farandole {

/// Of this member alone. Thread-safe.
class staging_heap {
public:
  explicit staging_heap(std::span<std::byte> memory) : memory_(memory), free_(memory.size()) {}

  struct place {
    std::size_t at = 0; ///< from the start of the member's staging memory
    std::size_t bytes = 0;
  };

  /// Whole cache lines; empty where there is no room now.
  std::optional<place> take(std::size_t bytes);
  /// Nobody reads it, or believes what it reads there.
  void give_back(const place& which);
  /// Likewise, as soon as `unread()` says so: it is asked when a place is wanted, and must not block.
  void give_back_when(const place& which, std::function<bool()> unread);
  /// Takes the pages of the first `bytes` of the memory, at a fraction of what single faults cost.
  void prefault(std::size_t bytes);

private:
  struct departing {
    place which;
    std::function<bool()> unread;
  };
  void collect();

  const std::span<std::byte> memory_;
  std::mutex mutex_;
  free_ranges free_;
  std::vector<departing> departing_; ///< at most as many as there are places
  std::size_t prefaulted_ = 0;
};

} // namespace farandole
