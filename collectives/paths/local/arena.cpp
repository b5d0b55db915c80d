#include "collectives/paths/local/arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "collectives/paths/local/pages.hpp"
namespace farandole {

namespace {

constexpr const char* name = "result arena";
constexpr std::size_t least_bytes = std::size_t{64} << 20;
/// Address space is plenty, not endless: some hundred members may stand on one host.
constexpr std::size_t most_bytes = std::size_t{64} << 30;
constexpr auto nowhere = std::numeric_limits<std::size_t>::max();

/// Large blocks are whole huge pages, so that none is shared by two.
constexpr std::size_t unit_of(std::size_t bytes) {
  return bytes >= huge_page_bytes ? huge_page_bytes : page_bytes;
}

constexpr std::size_t footprint(std::size_t bytes) {
  return rounded_up(std::max<std::size_t>(bytes, 1), unit_of(bytes));
}

expected<shared_mapping> mapped(const descriptor& shared, std::size_t bytes,
                                shared_mapping::in_children children) {
  shared_mapping memory(shared, bytes, children);
  if (!memory)
    return error{error_kind::unknown, std::string(name) + ": mapping failed: " + std::strerror(errno)};
  madvise(memory.data(), memory.size(), MADV_HUGEPAGE); // a wish: fewer faults
  // As large as the machine, and nearly all of it a hole: nothing to write out when a process dies.
  madvise(memory.data(), memory.size(), MADV_DONTDUMP);
  return memory;
}

} // namespace

std::size_t arena::usual_bytes() {
  const auto pages = sysconf(_SC_PHYS_PAGES);
  const auto machine = pages > 0 ? static_cast<std::size_t>(pages) * page_bytes : least_bytes;
  return rounded_up(std::clamp(machine, least_bytes, most_bytes), huge_page_bytes);
}

expected<std::shared_ptr<arena>> arena::create(std::size_t bytes) {
  auto shared = make_sealed(name, bytes);
  if (!shared)
    return shared.error();
  auto memory = mapped(*shared, bytes, shared_mapping::in_children::shared);
  if (!memory)
    return memory.error();
  return std::shared_ptr<arena>(new arena(std::move(*shared), std::move(*memory)));
}

arena::arena(descriptor shared, shared_mapping memory)
    : shared_(std::move(shared)), memory_(std::move(memory)), process_(getpid()), free_{{0, memory_.size()}} {
}

std::byte* arena::take(std::size_t bytes) {
  if (bytes > memory_.size())
    return nullptr;
  const auto size = footprint(bytes);
  const auto at = claim(size);
  if (at == nowhere)
    return nullptr;
  auto* const place = memory_.data() + at;
  if (fill(place, size))
    return place;
  give_back(place, bytes);
  return nullptr;
}

/// The first that is large enough.
std::size_t arena::claim(std::size_t bytes) {
  const std::lock_guard guard(mutex_);
  for (auto one = free_.begin(); one != free_.end(); ++one) {
    const auto [begin, size] = *one;
    const auto at = rounded_up(begin, unit_of(bytes));
    if (at - begin > size || bytes > size - (at - begin))
      continue;
    if (at == begin)
      free_.erase(one);
    else
      one->second = at - begin;
    if (at + bytes < begin + size)
      free_[at + bytes] = begin + size - at - bytes;
    return at;
  }
  return nowhere;
}

// A page that cannot be had would end the process that touches it, and that may be a neighbour.
bool arena::fill(std::byte* place, std::size_t bytes) {
  if (madvise(place, bytes, MADV_POPULATE_WRITE) == 0)
    return true;
  return errno == EINVAL &&
         posix_fallocate(shared_.get(), static_cast<off_t>(offset_of(place)), static_cast<off_t>(bytes)) == 0;
}

void arena::give_back(std::byte* place, std::size_t bytes) {
  abandon(place, bytes);
  const std::lock_guard guard(mutex_);
  release(offset_of(place), footprint(bytes));
}

void arena::abandon(std::byte* place, std::size_t bytes) {
  if (getpid() == process_)
    madvise(place, footprint(bytes), MADV_REMOVE);
}

void arena::release(std::size_t at, std::size_t bytes) {
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

expected<arena_view> arena_view::adopt(const descriptor& shared, std::size_t bytes) {
  if (auto problem = check_sealed(name, shared, bytes))
    return problem;
  auto memory = mapped(shared, bytes, shared_mapping::in_children::absent);
  if (!memory)
    return memory.error();
  return arena_view(std::move(*memory));
}

std::byte* arena_view::at(std::uint64_t offset, std::size_t bytes) const {
  if (offset > memory_.size() || bytes > memory_.size() - offset)
    return nullptr;
  return memory_.data() + offset;
}

} // namespace farandole
