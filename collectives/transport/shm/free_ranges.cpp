#include "collectives/transport/shm/free_ranges.hpp"

#include <iterator>

#include "collectives/transport/shm/pages.hpp"

namespace farandole {

std::optional<std::size_t> free_ranges::claim(std::size_t bytes, std::size_t alignment) {
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const auto [begin, size] = *range;
    const auto at = rounded_up(begin, alignment);
    if (at - begin > size || bytes > size - (at - begin))
      continue;
    if (at == begin)
      free_.erase(range);
    else
      range->second = at - begin;
    if (at + bytes < begin + size)
      free_[at + bytes] = begin + size - at - bytes;
    return at;
  }
  return std::nullopt;
}

void free_ranges::release(std::size_t at, std::size_t bytes) {
  auto next = free_.lower_bound(at);
  if (next != free_.end() && next->first == at + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin())
    if (auto before = std::prev(next); before->first + before->second == at) {
      before->second += bytes;
      return;
    }
  free_.emplace(at, bytes);
}

} // namespace farandole
