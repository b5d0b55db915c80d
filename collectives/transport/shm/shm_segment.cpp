#include "collectives/transport/shm/shm_segment.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <string>
#include <type_traits>

#include "collectives/transport/shm/pages.hpp"

namespace farandole {

namespace {

constexpr std::uint64_t magic = 0x6661'7261'6e64'0004; // "farand", then the version of the layout
constexpr std::size_t page = page_bytes;
constexpr const char* name = "shared segment";

/// The first page of the segment. The member that creates the segment writes it once, before any other
/// member can map it.
struct segment_header {
  std::uint64_t magic;
  segment_layout layout;
};
static_assert(std::is_trivially_copyable_v<segment_layout> && sizeof(segment_header) <= page);

constexpr std::size_t round_up(std::size_t bytes) {
  return rounded_up(bytes, page);
}

constexpr std::size_t counters_bytes = round_up(sizeof(member_counters));
std::size_t slot_bytes(const segment_layout& of) {
  return round_up(of.chunk_bytes);
}
std::size_t area_bytes(const segment_layout& of) {
  return counters_bytes + of.slots * slot_bytes(of) + round_up(of.fast_path_bytes) +
         round_up(of.staging_bytes);
}

error refused(const std::string& reason) {
  return {error_kind::precondition, std::string(name) + " refused: " + reason};
}

error not_mapped() {
  return {error_kind::unknown, std::string(name) + ": mapping failed: " + std::strerror(errno)};
}

} // namespace

error segment_layout::check() const {
  const auto wrong = [](const char* text, std::uint64_t value) {
    return error{error_kind::invalid_argument,
                 std::string(name) + ": " + text + " is " + std::to_string(value) + ", out of range"};
  };
  if (members < 1 || members > 4096)
    return wrong("the number of members", members);
  if (slots < 2 || slots > 64)
    return wrong("the number of slots", slots);
  if (chunk_bytes < page || chunk_bytes > (std::uint64_t{1} << 30))
    return wrong("the chunk in bytes", chunk_bytes);
  if (fast_path_bytes > (std::uint64_t{1} << 32))
    return wrong("the fast path area in bytes", fast_path_bytes);
  if (staging_bytes > (std::uint64_t{1} << 32))
    return wrong("the staging memory in bytes", staging_bytes);
  if (heap_bytes % page != 0 || heap_bytes > (std::uint64_t{1} << 40))
    return wrong("the result heap in bytes", heap_bytes);
  return {};
}

// Rounded up, so that the result heaps start at a huge page.
std::size_t segment_layout::segment_bytes() const {
  const auto bytes = page + members * area_bytes(*this);
  return heap_bytes > 0 ? rounded_up(bytes, huge_page_bytes) : bytes;
}

std::size_t segment_layout::total_bytes() const {
  return segment_bytes() + members * heap_bytes;
}

expected<std::unique_ptr<shm_segment>> shm_segment::create(const segment_layout& layout) {
  if (auto problem = layout.check())
    return problem;
  auto shared = make_sealed(name, layout.total_bytes());
  if (!shared)
    return shared.error();
  shared_mapping memory(*shared, layout.segment_bytes(), shared_mapping::in_children::absent);
  if (!memory)
    return not_mapped();
  // Fresh pages are zero, which is the initial value of counters and cells.
  const segment_header header{magic, layout};
  std::memcpy(memory.data(), &header, sizeof header);
  return std::unique_ptr<shm_segment>(new shm_segment(layout, std::move(*shared), std::move(memory)));
}

expected<std::unique_ptr<shm_segment>> shm_segment::adopt(descriptor shared, const segment_layout& wanted) {
  if (auto problem = wanted.check())
    return problem;
  if (auto problem = check_sealed(name, shared, wanted.total_bytes()))
    return problem;
  shared_mapping memory(shared, wanted.segment_bytes(), shared_mapping::in_children::absent);
  if (!memory)
    return not_mapped();
  segment_header header;
  std::memcpy(&header, memory.data(), sizeof header);
  if (header.magic != magic)
    return refused("it is not a segment of this version of Farandole");
  if (!(header.layout == wanted))
    return refused("it was made for another generation, set or shape");
  return std::unique_ptr<shm_segment>(new shm_segment(wanted, std::move(shared), std::move(memory)));
}

shm_segment::shm_segment(const segment_layout& layout, descriptor shared, shared_mapping memory)
    : layout_(layout), shared_(std::move(shared)), memory_(std::move(memory)), prefaulted_(layout.slots, 0) {}

std::byte* shm_segment::area(std::uint32_t member) {
  assert(member < layout_.members);
  return memory_.data() + page + member * area_bytes(layout_);
}

member_counters& shm_segment::counters(std::uint32_t member) {
  return *reinterpret_cast<member_counters*>(area(member));
}

std::byte* shm_segment::slot(std::uint32_t member, std::uint32_t index) {
  assert(index < layout_.slots);
  return area(member) + counters_bytes + index * slot_bytes(layout_);
}

std::span<std::byte> shm_segment::fast_path(std::uint32_t member) {
  return {area(member) + counters_bytes + layout_.slots * slot_bytes(layout_), layout_.fast_path_bytes};
}

std::span<std::byte> shm_segment::staging(std::uint32_t member) {
  return {fast_path(member).data() + round_up(layout_.fast_path_bytes), layout_.staging_bytes};
}

void shm_segment::prefault(std::uint32_t member, std::uint32_t index, std::size_t bytes) {
  std::size_t& done = prefaulted_[index];
  if (bytes <= done)
    return;
  assert(bytes <= layout_.chunk_bytes);
  const std::size_t end = round_up(bytes);
  // If the kernel does not support this, the first touch of each page populates it, only slower.
  madvise(slot(member, index) + done, end - done, MADV_POPULATE_WRITE);
  done = end;
}

} // namespace farandole
