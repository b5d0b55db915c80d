#include "collectives/transport/shm/shared_result_heap.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "collectives/transport/shm/pages.hpp"
#include "collectives/transport/shm/shm_segment.hpp"

namespace farandole {

namespace {

constexpr const char* name = "result heap";
constexpr std::size_t least_bytes = std::size_t{64} << 20;
/// Upper bound of a heap: every member maps the heaps of all members, and a host may have some hundred
/// members.
constexpr std::size_t most_bytes = std::size_t{64} << 30;

/// Large blocks are whole huge pages, so that no two blocks share one.
constexpr std::size_t unit_of(std::size_t bytes) {
  return bytes >= huge_page_bytes ? huge_page_bytes : page_bytes;
}

constexpr std::size_t footprint(std::size_t bytes) {
  return rounded_up(std::max<std::size_t>(bytes, 1), unit_of(bytes));
}

descriptor duplicate(int shared) {
  return descriptor(fcntl(shared, F_DUPFD_CLOEXEC, 0));
}

expected<shared_mapping> mapped(const descriptor& shared, std::size_t offset, std::size_t bytes,
                                shared_mapping::in_children children) {
  shared_mapping memory(shared, bytes, children, offset);
  if (!memory)
    return error{error_kind::unknown, std::string(name) + ": mapping failed: " + std::strerror(errno)};
  madvise(memory.data(), memory.size(), MADV_HUGEPAGE); // a hint: fewer page faults
  // The heap may be as large as the machine's memory and is mostly a hole, so core dumps leave it out.
  madvise(memory.data(), memory.size(), MADV_DONTDUMP);
  return memory;
}

} // namespace

std::size_t shared_result_heap::usual_bytes() {
  const auto pages = sysconf(_SC_PHYS_PAGES);
  const auto machine = pages > 0 ? static_cast<std::size_t>(pages) * page_bytes : least_bytes;
  return rounded_up(std::clamp(machine, least_bytes, most_bytes), huge_page_bytes);
}

expected<std::shared_ptr<shared_result_heap>> shared_result_heap::open(int shared, std::size_t offset,
                                                                       std::size_t bytes) {
  auto own = duplicate(shared);
  auto memory = mapped(own, offset, bytes, shared_mapping::in_children::shared);
  if (!memory)
    return memory.error();
  return std::shared_ptr<shared_result_heap>(
      new shared_result_heap(std::move(own), offset, std::move(*memory)));
}

shared_result_heap::shared_result_heap(descriptor shared, std::size_t offset, shared_mapping memory)
    : shared_(std::move(shared)), offset_(offset), memory_(std::move(memory)), process_(getpid()),
      free_(memory_.size()) {}

std::byte* shared_result_heap::take(std::size_t bytes) {
  if (bytes > memory_.size())
    return nullptr;
  const auto size = footprint(bytes);
  const auto at = claim(size);
  if (!at)
    return nullptr;
  auto* const block = memory_.data() + *at;
  if (fill(block, size))
    return block;
  give_back(block, bytes);
  return nullptr;
}

std::optional<std::size_t> shared_result_heap::claim(std::size_t bytes) {
  const std::lock_guard guard(mutex_);
  return free_.claim(bytes, unit_of(bytes));
}

// Allocates the pages now. Without memory for a page, the process that touches it would be killed, and that
// may be another member.
bool shared_result_heap::fill(std::byte* block, std::size_t bytes) {
  if (madvise(block, bytes, MADV_POPULATE_WRITE) == 0)
    return true;
  return errno == EINVAL && posix_fallocate(shared_.get(), static_cast<off_t>(offset_ + offset_of(block)),
                                            static_cast<off_t>(bytes)) == 0;
}

void shared_result_heap::give_back(std::byte* block, std::size_t bytes) {
  abandon(block, bytes);
  const std::lock_guard guard(mutex_);
  free_.release(offset_of(block), footprint(bytes));
}

void shared_result_heap::abandon(std::byte* block, std::size_t bytes) {
  if (getpid() == process_)
    madvise(block, footprint(bytes), MADV_REMOVE);
}

expected<result_heap_view> result_heap_view::open(int shared, std::size_t offset, std::size_t bytes) {
  auto memory = mapped(duplicate(shared), offset, bytes, shared_mapping::in_children::absent);
  if (!memory)
    return memory.error();
  return result_heap_view(std::move(*memory));
}

expected<std::shared_ptr<const result_heaps>> result_heaps::open(const shm_segment& shared,
                                                                 std::uint32_t rank) {
  const auto& layout = shared.layout();
  const auto offset_of = [&layout](std::uint32_t member) {
    return layout.segment_bytes() + member * layout.heap_bytes;
  };
  auto heaps = std::make_shared<result_heaps>();
  auto own = shared_result_heap::open(shared.shared_descriptor(), offset_of(rank), layout.heap_bytes);
  if (!own)
    return own.error();
  heaps->own = std::move(*own);
  for (std::uint32_t member = 0; member < layout.members; ++member) {
    auto view = result_heap_view::open(shared.shared_descriptor(), offset_of(member), layout.heap_bytes);
    if (!view)
      return view.error();
    heaps->views.push_back(std::move(*view));
  }
  return std::shared_ptr<const result_heaps>(std::move(heaps));
}

std::byte* result_heap_view::at(std::uint64_t offset, std::size_t bytes) const {
  if (offset > memory_.size() || bytes > memory_.size() - offset)
    return nullptr;
  return memory_.data() + offset;
}

} // namespace farandole
