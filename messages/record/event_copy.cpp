#include "messages/record/event_copy.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "messages/record/event_region.hpp"
#include "messages/record/stored_text.hpp"
#include "messages/values/file_bytes.hpp"

namespace farandole {

namespace {

constexpr std::size_t page_bytes = 4096;

error failed(const std::string& action) {
  return {error_kind::unknown, "the event record cannot be " + action + ": " + std::strerror(errno)};
}

/// Leaves out pages of zeros, which the file then does not store.
bool write_sparsely(int file, std::size_t offset, std::span<const std::byte> source) {
  while (!source.empty()) {
    const auto page = source.first(std::min(source.size(), page_bytes - offset % page_bytes));
    const bool is_zero = std::ranges::all_of(page, [](std::byte value) { return value == std::byte{0}; });
    if (!is_zero && !write_at(file, offset, page))
      return false;
    offset += page.size();
    source = source.subspan(page.size());
  }
  return true;
}

/// A part of the memory, in a buffer that is aligned for its header.
template <class Header>
struct copied_header {
  alignas(64) std::array<std::byte, sizeof(Header)> bytes{};
  Header& value() { return *reinterpret_cast<Header*>(bytes.data()); }
};

std::optional<event_region_layout> layout_behind(int memory) {
  struct stat status {};
  if (::fstat(memory, &status) != 0)
    return std::nullopt;
  return layout_of(static_cast<std::size_t>(status.st_size));
}

/// The number of events that the owner of a ring has written.
std::optional<std::uint64_t> written_in(int memory, std::size_t ring_offset) {
  copied_header<event_ring_header> header;
  if (!read_at(memory, ring_offset, header.bytes))
    return std::nullopt;
  return header.value().written.load(std::memory_order_relaxed);
}

// The count is read before and after the events, as event_ring::read() does. The slots of events that the owner may have
// been overwriting meanwhile are cleared, and the copy keeps the first count, so that its reader does not take a newer
// event for an older one. System calls are not reordered with each other.
error copy_ring(int memory, int file, std::size_t offset, std::size_t ring_events) {
  copied_header<event_ring_header> header;
  if (!read_at(memory, offset, header.bytes))
    return failed("read");
  const auto written = header.value().written.load(std::memory_order_relaxed);
  if (written == 0)
    return {};
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(written, ring_events));
  std::vector<std::byte> slots(count * sizeof(event));
  if (!read_at(memory, offset + sizeof(event_ring_header), slots))
    return failed("read");
  const auto written_later = written_in(memory, offset);
  if (!written_later)
    return failed("read");
  for (auto number = written - count; number < written && number + ring_events <= *written_later; ++number) {
    const auto slot = static_cast<std::size_t>(number & (ring_events - 1)) * sizeof(event);
    std::fill_n(slots.begin() + static_cast<std::ptrdiff_t>(slot), sizeof(event), std::byte{0});
  }
  if (!write_at(file, offset, header.bytes) ||
      !write_sparsely(file, offset + sizeof(event_ring_header), slots))
    return failed("written");
  return {};
}

} // namespace

void write_facts(const record_copy& facts, event_copy_header& target) {
  target.steady_ns.store(facts.time.steady.count(), std::memory_order_relaxed);
  target.system_ns.store(facts.time.system.count(), std::memory_order_relaxed);
  target.slot.store(facts.slot, std::memory_order_relaxed);
  target.told_to_end.store(facts.told_to_end ? 1 : 0, std::memory_order_relaxed);
  target.process.store(facts.process, std::memory_order_relaxed);
  target.state.store(facts.state, std::memory_order_relaxed);
  store_text(target.ending, facts.ending);
  target.ticks.store(facts.time.ticks, std::memory_order_release);
}

bool is_recorded_in(int memory) {
  copied_header<event_region_header> header;
  return read_at(memory, 0, header.bytes) &&
         header.value().magic.load(std::memory_order_relaxed) == event_region_magic;
}

std::int32_t rank_recorded_in(int memory) {
  copied_header<event_region_header> header;
  return is_recorded_in(memory) && read_at(memory, 0, header.bytes)
             ? header.value().rank.load(std::memory_order_relaxed)
             : -1;
}

// The rings first: the names of all events that were copied are then in the table. The header is written last, so that an
// incomplete file is no record.
error copy_event_record(int memory, int file, const record_copy& facts) {
  const auto layout = layout_behind(memory);
  if (!layout)
    return {error_kind::invalid_argument, "the memory of the event record has an impossible size"};
  if (::ftruncate(file, static_cast<off_t>(layout->bytes())) != 0)
    return failed("written");
  for (std::size_t i = 0; i < event_ring_limit; ++i)
    if (auto problem = copy_ring(memory, file, layout->ring_offset(i), layout->ring_events))
      return problem;
  std::vector<std::byte> names(layout->rings_offset() - event_region_layout::header_bytes);
  if (!read_at(memory, event_region_layout::header_bytes, names))
    return failed("read");
  if (!write_sparsely(file, event_region_layout::header_bytes, names))
    return failed("written");
  copied_header<event_region_header> header;
  if (!read_at(memory, 0, header.bytes))
    return failed("read");
  auto& copy = header.value();
  if (copy.magic.load(std::memory_order_relaxed) != event_region_magic) {
    copy.magic.store(event_region_magic, std::memory_order_relaxed);
    copy.version.store(event_region_version, std::memory_order_relaxed);
    copy.ring_events.store(static_cast<std::uint32_t>(layout->ring_events), std::memory_order_relaxed);
    copy.rank.store(-1, std::memory_order_relaxed);
    copy.local_rank.store(-1, std::memory_order_relaxed);
  }
  write_facts(facts, copy.copy);
  return write_at(file, 0, header.bytes) ? error{} : failed("written");
}

} // namespace farandole
