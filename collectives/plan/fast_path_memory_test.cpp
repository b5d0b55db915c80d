#include "collectives/plan/fast_path_memory.hpp"

#include <catch2/catch.hpp>

using farandole::fast_path_memory;

TEST_CASE("the fast path's memory is bounded for the host, and so divided among its members") {
  constexpr std::size_t total = std::size_t{64} << 20;
  for (const std::size_t members : {2, 3, 4, 64, 128}) {
    const auto each = fast_path_memory::of(total, members);
    CHECK(each.cells_bytes % 4096 == 0);
    CHECK(each.staging_bytes % 4096 == 0);
    CHECK(each.staging_bytes > 0);
    CHECK(members * (each.cells_bytes + each.staging_bytes) <= total);
    CHECK(members * (each.cells_bytes + each.staging_bytes) > total - members * 4096);
  }
}

TEST_CASE("among so many members that a slot has no cache line for each, nothing is staged") {
  CHECK(fast_path_memory::of(std::size_t{64} << 10, 64).staging_bytes == 0);
  CHECK(fast_path_memory::of(std::size_t{64} << 10, 64).cells_bytes > 0);
}
