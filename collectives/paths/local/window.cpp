#include "collectives/paths/local/window.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <string>
#include <type_traits>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 // Linux 5.14
#endif

namespace farandole {

namespace {

constexpr std::uint64_t magic = 0x6661'7261'6e64'0001; // "farand", and the version of what follows
constexpr std::size_t page = 4096;
constexpr int wanted_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/// The first page. Written once, by who makes the window, before anybody else can see it.
struct window_header {
  std::uint64_t magic;
  window_layout layout;
};
static_assert(std::is_trivially_copyable_v<window_layout> && sizeof(window_header) <= page);

constexpr std::size_t round_up(std::size_t bytes) {
  return (bytes + page - 1) / page * page;
}

constexpr std::size_t counters_bytes = round_up(sizeof(member_counters));
std::size_t slot_bytes(const window_layout& of) {
  return round_up(of.chunk_bytes);
}
std::size_t area_bytes(const window_layout& of) {
  return counters_bytes + of.slots * slot_bytes(of) + round_up(of.board_bytes);
}

error failed(const std::string& doing) {
  return {error_kind::unknown, "shared window: " + doing + " failed: " + std::strerror(errno)};
}

error refused(const std::string& why) {
  return {error_kind::precondition, "shared window refused: " + why};
}

/// Null when it cannot be mapped.
std::byte* map(int number, std::size_t bytes) {
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, number, 0);
  if (base == MAP_FAILED)
    return nullptr;
  // A forked child must not be able to disturb its parent's job.
  madvise(base, bytes, MADV_DONTFORK);
  return static_cast<std::byte*>(base);
}

} // namespace

error window_layout::check() const {
  const auto wrong = [](const char* what, std::uint64_t value) {
    return error{error_kind::invalid_argument,
                 "shared window: " + std::string(what) + " is " + std::to_string(value) + ", out of range"};
  };
  if (members < 1 || members > 4096)
    return wrong("the number of members", members);
  if (slots < 2 || slots > 64)
    return wrong("the number of slots", slots);
  if (chunk_bytes < page || chunk_bytes > (std::uint64_t{1} << 30))
    return wrong("the chunk in bytes", chunk_bytes);
  if (board_bytes > (std::uint64_t{1} << 32))
    return wrong("the board area in bytes", board_bytes);
  return {};
}

std::size_t window_layout::total_bytes() const {
  return page + members * area_bytes(*this);
}

expected<std::unique_ptr<window>> window::create(const window_layout& layout) {
  if (auto problem = layout.check())
    return problem;
  descriptor shared(memfd_create("farandole-window", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!shared)
    return failed("memfd_create");
  if (ftruncate(shared.get(), static_cast<off_t>(layout.total_bytes())) != 0)
    return failed("setting its size to " + std::to_string(layout.total_bytes()) + " bytes");
  if (fcntl(shared.get(), F_ADD_SEALS, wanted_seals) != 0)
    return failed("sealing");
  std::byte* base = map(shared.get(), layout.total_bytes());
  if (!base)
    return failed("mapping");
  // Fresh pages are zero, and zero is what counters and cells start from.
  const window_header header{magic, layout};
  std::memcpy(base, &header, sizeof header);
  return std::unique_ptr<window>(new window(layout, std::move(shared), base));
}

expected<std::unique_ptr<window>> window::adopt(descriptor shared, const window_layout& wanted) {
  if (auto problem = wanted.check())
    return problem;
  struct stat status {};
  if (fstat(shared.get(), &status) != 0)
    return failed("looking at the descriptor");
  if (static_cast<std::uint64_t>(status.st_size) != wanted.total_bytes())
    return refused("it has " + std::to_string(status.st_size) + " bytes, not " +
                   std::to_string(wanted.total_bytes()));
  const int seals = fcntl(shared.get(), F_GET_SEALS);
  if (seals < 0 || (seals & wanted_seals) != wanted_seals)
    return refused("it is not sealed against a change of size");
  std::byte* base = map(shared.get(), wanted.total_bytes());
  if (!base)
    return failed("mapping");
  auto result = std::unique_ptr<window>(new window(wanted, {}, base));
  window_header header;
  std::memcpy(&header, base, sizeof header);
  if (header.magic != magic)
    return refused("it is no window of this version");
  if (!(header.layout == wanted))
    return refused("it was made for another generation, set or shape");
  return result;
}

window::window(const window_layout& layout, descriptor shared, std::byte* base)
    : layout_(layout), shared_(std::move(shared)), base_(base), owner_process_(getpid()),
      prefaulted_(layout.slots, 0) {}

window::~window() {
  if (getpid() == owner_process_)
    munmap(base_, layout_.total_bytes());
}

std::byte* window::area(std::uint32_t member) {
  assert(member < layout_.members);
  return base_ + page + member * area_bytes(layout_);
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
