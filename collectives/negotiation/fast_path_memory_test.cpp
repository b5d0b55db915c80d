#include "collectives/negotiation/fast_path_memory.hpp"

#include <catch2/catch.hpp>

using farandole::fast_path_memory;

TEST_CASE("the fast path's memory is limited for the host and divided among its members") {
  constexpr std::size_t total = std::size_t{64} << 20;
  for (const std::size_t members : {2, 3, 4, 64, 128}) {
    const auto fast_path_memory = fast_path_memory::of(total, members);
    CHECK(fast_path_memory.cells_bytes % 4096 == 0);
    CHECK(fast_path_memory.staging_bytes % 4096 == 0);
    CHECK(fast_path_memory.staging_bytes > 0);
    CHECK(members * (fast_path_memory.cells_bytes + fast_path_memory.staging_bytes) <= total);
    CHECK(members * (fast_path_memory.cells_bytes + fast_path_memory.staging_bytes) > total - members * 4096);
  }
}

TEST_CASE("with too many members for a cache line of each in a slot, no staging memory is reserved") {
  CHECK(fast_path_memory::of(std::size_t{64} << 10, 64).staging_bytes == 0);
  CHECK(fast_path_memory::of(std::size_t{64} << 10, 64).cells_bytes > 0);
}
