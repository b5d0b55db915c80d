#include "collectives/paths/local/window.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <string>
#include <type_traits>

#include "collectives/paths/local/pages.hpp"

namespace farandole {

namespace {

constexpr std::uint64_t magic = 0x6661'7261'6e64'0004; // "farand", and the version of what follows
constexpr std::size_t page = page_bytes;
constexpr const char* name = "shared window";

/// The first page. Written once, by who makes the window, before anybody else can see it.
struct window_header {
  std::uint64_t magic;
  window_layout layout;
};
static_assert(std::is_trivially_copyable_v<window_layout> && sizeof(window_header) <= page);

constexpr std::size_t round_up(std::size_t bytes) {
  return rounded_up(bytes, page);
}

constexpr std::size_t counters_bytes = round_up(sizeof(member_counters));
std::size_t slot_bytes(const window_layout& of) {
  return round_up(of.chunk_bytes);
}
std::size_t area_bytes(const window_layout& of) {
  return counters_bytes + of.slots * slot_bytes(of) + round_up(of.board_bytes) + round_up(of.staging_bytes);
}

error refused(const std::string& why) {
  return {error_kind::precondition, std::string(name) + " refused: " + why};
}

error not_mapped() {
  return {error_kind::unknown, std::string(name) + ": mapping failed: " + std::strerror(errno)};
}

} // namespace

error window_layout::check() const {
  const auto wrong = [](const char* what, std::uint64_t value) {
    return error{error_kind::invalid_argument,
                 std::string(name) + ": " + what + " is " + std::to_string(value) + ", out of range"};
  };
  if (members < 1 || members > 4096)
    return wrong("the number of members", members);
  if (slots < 2 || slots > 64)
    return wrong("the number of slots", slots);
  if (chunk_bytes < page || chunk_bytes > (std::uint64_t{1} << 30))
    return wrong("the chunk in bytes", chunk_bytes);
  if (board_bytes > (std::uint64_t{1} << 32))
    return wrong("the board area in bytes", board_bytes);
  if (staging_bytes > (std::uint64_t{1} << 32))
    return wrong("the staging memory in bytes", staging_bytes);
  if (arena_bytes % page != 0 || arena_bytes > (std::uint64_t{1} << 40))
    return wrong("the arena in bytes", arena_bytes);
  return {};
}

// The arenas begin at a huge page.
std::size_t window_layout::window_bytes() const {
  const auto bytes = page + members * area_bytes(*this);
  return arena_bytes > 0 ? rounded_up(bytes, huge_page_bytes) : bytes;
}

std::size_t window_layout::total_bytes() const {
  return window_bytes() + members * arena_bytes;
}

expected<std::unique_ptr<window>> window::create(const window_layout& layout) {
  if (auto problem = layout.check())
    return problem;
  auto shared = make_sealed(name, layout.total_bytes());
  if (!shared)
    return shared.error();
  shared_mapping memory(*shared, layout.window_bytes(), shared_mapping::in_children::absent);
  if (!memory)
    return not_mapped();
  // Fresh pages are zero, and zero is what counters and cells start from.
  const window_header header{magic, layout};
  std::memcpy(memory.data(), &header, sizeof header);
  return std::unique_ptr<window>(new window(layout, std::move(*shared), std::move(memory)));
}

expected<std::unique_ptr<window>> window::adopt(descriptor shared, const window_layout& wanted) {
  if (auto problem = wanted.check())
    return problem;
  if (auto problem = check_sealed(name, shared, wanted.total_bytes()))
    return problem;
  shared_mapping memory(shared, wanted.window_bytes(), shared_mapping::in_children::absent);
  if (!memory)
    return not_mapped();
  window_header header;
  std::memcpy(&header, memory.data(), sizeof header);
  if (header.magic != magic)
    return refused("it is no window of this version");
  if (!(header.layout == wanted))
    return refused("it was made for another generation, set or shape");
  return std::unique_ptr<window>(new window(wanted, std::move(shared), std::move(memory)));
}

window::window(const window_layout& layout, descriptor shared, shared_mapping memory)
    : layout_(layout), shared_(std::move(shared)), memory_(std::move(memory)), prefaulted_(layout.slots, 0) {}

std::byte* window::area(std::uint32_t member) {
  assert(member < layout_.members);
  return memory_.data() + page + member * area_bytes(layout_);
}

member_counters& window::counters(std::uint32_t member) {
  return *reinterpret_cast<member_counters*>(area(member));
}

std::byte* window::slot(std::uint32_t member, std::uint32_t index) {
  assert(index < layout_.slots);
  return area(member) + counters_bytes + index * slot_bytes(layout_);
}

std::span<std::byte> window::board(std::uint32_t member) {
  return {area(member) + counters_bytes + layout_.slots * slot_bytes(layout_), layout_.board_bytes};
}

std::span<std::byte> window::staging(std::uint32_t member) {
  return {board(member).data() + round_up(layout_.board_bytes), layout_.staging_bytes};
}

void window::prefault(std::uint32_t member, std::uint32_t index, std::size_t bytes) {
  std::size_t& done = prefaulted_[index];
  if (bytes <= done)
    return;
  assert(bytes <= layout_.chunk_bytes);
  const std::size_t end = round_up(bytes);
  // Where the kernel cannot, the first touch of each page does the same, slower.
  madvise(slot(member, index) + done, end - done, MADV_POPULATE_WRITE);
  done = end;
}

} // namespace farandole
