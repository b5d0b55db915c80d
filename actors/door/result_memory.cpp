#include "actors/door/result_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace farandole {

namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t huge_page = std::size_t{2} << 20;
// Smaller blocks come warm from the C library.
constexpr std::size_t smallest_kept = std::size_t{128} << 10;

constexpr std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::byte* fresh(std::size_t bytes) {
  const auto unit = bytes >= huge_page ? huge_page : page;
  auto* memory = std::aligned_alloc(unit, rounded_up(bytes, unit));
  if (memory && bytes >= huge_page)
    ::madvise(memory, bytes / huge_page * huge_page, MADV_HUGEPAGE); // a wish: fewer faults
  return static_cast<std::byte*>(memory);
}

} // namespace

result_memory::~result_memory() {
  for (const auto& one : spares_)
    std::free(one.memory);
}

result_memory::block result_memory::take(std::size_t bytes) {
  auto size = rounded_up(std::max<std::size_t>(bytes, 1), page);
  if (size < bytes)
    return {nullptr, {}}; // more than can be counted
  auto* memory = take_spare(size, size);
  if (!memory)
    memory = fresh(size);
  if (!memory)
    return {nullptr, {}};
  const std::lock_guard guard(mutex_);
  in_use_ += size;
  most_in_use_ = std::max(most_in_use_, in_use_);
  return {memory, {shared_from_this(), size}};
}

// The smallest that is large enough, but not one of more than twice the size.
std::byte* result_memory::take_spare(std::size_t least, std::size_t& bytes) {
  const std::lock_guard guard(mutex_);
  auto best = spares_.end();
  for (auto one = spares_.begin(); one != spares_.end(); ++one)
    if (one->bytes >= least && one->bytes / 2 <= least && (best == spares_.end() || one->bytes < best->bytes))
      best = one;
  if (best == spares_.end())
    return nullptr;
  const auto found = *best;
  spares_.erase(best);
  kept_ -= found.bytes;
  bytes = found.bytes;
  return found.memory;
}

void result_memory::give_back(std::byte* memory, std::size_t bytes) {
  std::vector<spare> gone;
  {
    const std::lock_guard guard(mutex_);
    in_use_ -= bytes;
    spares_.push_back({memory, bytes});
    kept_ += bytes;
    const auto room = std::min(limit_, most_in_use_ - in_use_);
    while (kept_ > room || (!spares_.empty() && spares_.back().bytes < smallest_kept)) {
      const auto which = spares_.back().bytes < smallest_kept ? spares_.end() - 1 : spares_.begin();
      kept_ -= which->bytes;
      gone.push_back(*which);
      spares_.erase(which);
    }
  }
  for (const auto& one : gone)
    std::free(one.memory);
}

std::size_t result_memory::kept() const {
  const std::lock_guard guard(mutex_);
  return kept_;
}

void result_memory::giver_back::operator()(std::byte* memory) const {
  home->give_back(memory, bytes);
}

} // namespace farandole
