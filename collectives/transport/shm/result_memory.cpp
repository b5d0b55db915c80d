#include "collectives/transport/shm/result_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "collectives/transport/shm/pages.hpp"
namespace farandole {

namespace {

// Smaller blocks are not cached here: the C library caches them itself.
constexpr std::size_t smallest_kept = std::size_t{128} << 10;

std::byte* fresh(std::size_t bytes) {
  const auto unit = bytes >= huge_page_bytes ? huge_page_bytes : page_bytes;
  auto* memory = std::aligned_alloc(unit, rounded_up(bytes, unit));
  if (memory && bytes >= huge_page_bytes)
    ::madvise(memory, bytes / huge_page_bytes * huge_page_bytes, MADV_HUGEPAGE); // a hint: fewer page faults
  return static_cast<std::byte*>(memory);
}

void end(std::byte* memory, std::size_t bytes, shared_result_heap* heap) {
  if (heap)
    heap->give_back(memory, bytes);
  else
    std::free(memory);
}

} // namespace

result_memory::~result_memory() {
  for (const auto& spare : spares_)
    end(spare.memory, spare.bytes, spare.heap.get());
}

result_memory::block result_memory::take(std::size_t bytes, std::shared_ptr<shared_result_heap> heap) {
  const auto size = rounded_up(std::max<std::size_t>(bytes, 1), page_bytes);
  if (size < bytes)
    return {nullptr, {}}; // the rounding overflowed
  auto found = take_spare(size, heap.get());
  if (!found)
    found = {heap ? heap->take(size) : fresh(size), size, std::move(heap)};
  if (!found->memory)
    return {nullptr, {}};
  const std::lock_guard guard(mutex_);
  in_use_ += found->bytes;
  most_in_use_ = std::max(most_in_use_, in_use_);
  return {found->memory, {shared_from_this(), std::move(found->heap), found->bytes}};
}

// Returns the smallest cached block that is large enough, but none of more than about twice the size.
std::optional<result_memory::spare> result_memory::take_spare(std::size_t minimum,
                                                              const shared_result_heap* heap) {
  const std::lock_guard guard(mutex_);
  auto best = spares_.end();
  for (auto position = spares_.begin(); position != spares_.end(); ++position)
    if (position->heap.get() == heap && position->bytes >= minimum && position->bytes / 2 <= minimum &&
        (best == spares_.end() || position->bytes < best->bytes))
      best = position;
  if (best == spares_.end())
    return std::nullopt;
  auto found = std::move(*best);
  spares_.erase(best);
  kept_ -= found.bytes;
  return found;
}

void result_memory::give_back(spare entry) {
  std::vector<spare> gone;
  {
    const std::lock_guard guard(mutex_);
    in_use_ -= entry.bytes;
    kept_ += entry.bytes;
    spares_.push_back(std::move(entry));
    const auto room = std::min(limit_, most_in_use_ - in_use_);
    while (kept_ > room || (!spares_.empty() && spares_.back().bytes < smallest_kept)) {
      const auto which = spares_.back().bytes < smallest_kept ? spares_.end() - 1 : spares_.begin();
      kept_ -= which->bytes;
      gone.push_back(std::move(*which));
      spares_.erase(which);
    }
  }
  for (const auto& item : gone)
    end(item.memory, item.bytes, item.heap.get());
}

void result_memory::abandon(block which) {
  const auto& [home, heap, bytes] = which.get_deleter();
  {
    const std::lock_guard guard(home->mutex_);
    home->in_use_ -= bytes;
  }
  heap->abandon(which.release(), bytes);
}

std::size_t result_memory::kept() const {
  const std::lock_guard guard(mutex_);
  return kept_;
}

void result_memory::giver_back::operator()(std::byte* memory) const {
  home->give_back({memory, bytes, heap});
}

} // namespace farandole
