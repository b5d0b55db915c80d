#include "collectives/transport/shm/shared_result_heap.hpp"

#include <catch2/catch.hpp>

#include <cstring>
#include <random>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "collectives/transport/paths_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t mib = std::size_t{1} << 20;

/// A result heap that occupies a whole memory object, and the object.
struct whole_object {
  descriptor shared;
  std::shared_ptr<shared_result_heap> own;

  explicit whole_object(std::size_t bytes) : shared(std::move(*make_sealed("result heap", bytes))) {
    own = *shared_result_heap::open(shared.get(), 0, bytes);
  }
  shared_result_heap* operator->() const { return own.get(); }
  result_heap_view view() const {
    auto opened = result_heap_view::open(shared.get(), 0, own->size());
    REQUIRE(opened);
    return std::move(*opened);
  }
};

} // namespace

TEST_CASE("bytes written through a view appear in the result heap", "[result_heap]") {
  const whole_object whole(64 * mib);
  const auto view = whole.view();
  auto* const first = whole->take(3 * mib);
  auto* const second = whole->take(100);
  REQUIRE(first);
  REQUIRE(second);
  std::memset(view.at(whole->offset_of(first), 3 * mib), 1, 3 * mib);
  std::memset(view.at(whole->offset_of(second), 100), 2, 100);
  CHECK(first[0] == std::byte{1});
  CHECK(first[3 * mib - 1] == std::byte{1});
  CHECK(second[99] == std::byte{2});
}

TEST_CASE("a view gives no access outside its result heap", "[result_heap]") {
  const whole_object whole(2 * mib);
  const auto view = whole.view();
  CHECK(view.at(0, 2 * mib));
  CHECK_FALSE(view.at(1, 2 * mib));
  CHECK_FALSE(view.at(2 * mib + 1, 0));
  CHECK_FALSE(view.at(~std::uint64_t{0}, 2));
  CHECK_FALSE(view.at(2, ~std::size_t{0}));
}

TEST_CASE("every member has its own result heap behind the shared segment", "[result_heap]") {
  segment_layout layout;
  layout.members = 3;
  layout.fast_path_bytes = 4096;
  layout.chunk_bytes = 4096;
  layout.heap_bytes = 2 * mib;
  const auto segments = make_segments(layout);
  std::vector<std::shared_ptr<const result_heaps>> heaps;
  for (std::uint32_t rank = 0; rank < layout.members; ++rank) {
    auto opened = result_heaps::open(*segments[rank], rank);
    REQUIRE(opened);
    heaps.push_back(std::move(*opened));
  }
  for (std::uint32_t owner = 0; owner < layout.members; ++owner) {
    auto* const block = heaps[owner]->own->take(100);
    REQUIRE(block);
    const auto at = heaps[owner]->own->offset_of(block);
    for (std::uint32_t writer = 0; writer < layout.members; ++writer)
      heaps[writer]->views[owner].at(at, 100)[writer] = static_cast<std::byte>(10 * owner + writer);
    for (std::uint32_t writer = 0; writer < layout.members; ++writer)
      CHECK(block[writer] == static_cast<std::byte>(10 * owner + writer));
  }
  for (std::uint32_t member = 0; member < layout.members; ++member)
    for (const auto byte : segments[0]->fast_path(member))
      REQUIRE(byte == std::byte{0});
}

TEST_CASE("a full result heap returns null, and returned blocks can be taken again", "[result_heap]") {
  const whole_object whole(8 * mib);
  auto* const half = whole->take(4 * mib);
  auto* const rest = whole->take(4 * mib);
  REQUIRE(half);
  REQUIRE(rest);
  CHECK_FALSE(whole->take(1));
  CHECK_FALSE(whole->take(9 * mib));
  half[0] = std::byte{7};
  whole->give_back(half, 4 * mib);
  whole->give_back(rest, 4 * mib);
  auto* const all = whole->take(8 * mib);
  REQUIRE(all);
  CHECK(all == std::min(half, rest));
  CHECK(all[0] == std::byte{0}); // the heap has released its pages
}

TEST_CASE("an abandoned block of a result heap is never handed out again", "[result_heap]") {
  const whole_object whole(8 * mib);
  const auto view = whole.view();
  auto* const block = whole->take(4 * mib);
  const auto at = whole->offset_of(block);
  whole->abandon(block, 4 * mib);
  *view.at(at, 1) = std::byte{9}; // another member still writes
  auto* const other = whole->take(4 * mib);
  REQUIRE(other);
  CHECK(other != block);
  CHECK_FALSE(whole->take(1));
}

TEST_CASE("blocks of all sizes never overlap, and after their return the whole result heap is free",
          "[result_heap]") {
  const whole_object whole(64 * mib);
  struct block {
    std::byte* block;
    std::size_t bytes;
    std::byte mark;
  };
  std::vector<block> blocks;
  std::mt19937 dice(7);
  for (int step = 0; step < 400; ++step) {
    if (blocks.empty() || dice() % 5 < 3) {
      const auto bytes = dice() % 3 == 0 ? dice() % (5 * mib) : 1 + dice() % (16 * page);
      if (auto* const block = whole->take(bytes)) {
        blocks.push_back({block, bytes, static_cast<std::byte>(step)});
        std::memset(block, step & 0xff, bytes);
      }
    } else {
      const auto which = dice() % blocks.size();
      const auto [block, bytes, mark] = blocks[which];
      for (std::size_t at = 0; at < bytes; at += page)
        REQUIRE(block[at] == mark);
      whole->give_back(block, bytes);
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(which));
    }
  }
  for (const auto& entry : blocks)
    whole->give_back(entry.block, entry.bytes);
  CHECK(whole->take(64 * mib));
}

TEST_CASE("a forked child does not release pages of its parent's results", "[result_heap]") {
  const whole_object whole(8 * mib);
  auto* const block = whole->take(4 * mib);
  REQUIRE(block);
  block[5] = std::byte{5};
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    whole->give_back(block, 4 * mib);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(block[5] == std::byte{5});
}
