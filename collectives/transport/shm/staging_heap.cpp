#include "collectives/transport/shm/staging_heap.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "collectives/transport/shm/pages.hpp"

namespace farandole {

namespace {

constexpr std::size_t cache_line = 64;
/// Minimum number of bytes to populate at a time: more than an operation on small tensors needs, but few
/// enough to be fast.
constexpr std::size_t least_prefault_bytes = std::size_t{256} << 10;

} // namespace

std::optional<staging_heap::range> staging_heap::take(std::size_t bytes) {
  const auto size = rounded_up(std::max<std::size_t>(bytes, 1), cache_line);
  if (size < bytes)
    return std::nullopt; // the rounding overflowed
  const std::lock_guard guard(mutex_);
  collect();
  const auto at = free_.claim(size, cache_line);
  return at ? std::optional(range{*at, size}) : std::nullopt;
}

void staging_heap::give_back(const range& which) {
  const std::lock_guard guard(mutex_);
  free_.release(which.at, which.bytes);
}

void staging_heap::give_back_when(const range& which, std::function<bool()> unread) {
  const std::lock_guard guard(mutex_);
  departing_.push_back({which, std::move(unread)});
}

void staging_heap::collect() {
  std::erase_if(departing_, [this](const departing& leaving) {
    if (!leaving.unread())
      return false;
    free_.release(leaving.which.at, leaving.which.bytes);
    return true;
  });
}

void staging_heap::prefault(std::size_t bytes) {
  const std::lock_guard guard(mutex_);
  if (bytes <= prefaulted_)
    return;
  const auto end = std::min(rounded_up(std::max(bytes, prefaulted_ + least_prefault_bytes), page_bytes),
                            memory_.size() / page_bytes * page_bytes);
  // If the kernel does not support this, the first touch of each page populates it, only slower.
  if (end > prefaulted_)
    madvise(memory_.data() + prefaulted_, end - prefaulted_, MADV_POPULATE_WRITE);
  prefaulted_ = std::max(bytes, end);
}

} // namespace farandole
