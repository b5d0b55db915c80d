#include "collectives/transport/hierarchy.hpp"

#include <catch2/catch.hpp>

#include "collectives/operation.hpp"

using namespace farandole;

TEST_CASE(
    "hierarchy::of orders hosts by their first rank and gives a member's position and cross-host group") {
  const std::vector<std::string> hosts = {"b", "a", "b", "a", "c", "c", "b"};
  const auto made = hierarchy::of(hosts, 3);
  CHECK(made.hosts == std::vector<std::vector<std::int32_t>>{{0, 2, 6}, {1, 3}, {4, 5}});
  CHECK(made.host == 1);
  CHECK(made.position == 1);
  CHECK(made.cross_host_groups == 2);
  CHECK(made.cross_host_group() == std::vector<std::int32_t>{2, 3, 5});
  CHECK(hierarchy::of(hosts, 0).cross_host_group() == std::vector<std::int32_t>{0, 1, 4});
  CHECK_FALSE(hierarchy::of(hosts, 6).in_cross_host_group());
}

TEST_CASE("splits_by_bits holds only for layouts in which bits of the rank select the host") {
  const auto splits = [](const std::vector<std::string>& hosts) {
    return hierarchy::of(hosts, 0).splits_by_bits();
  };
  CHECK(splits({"a", "a", "b", "b"}));
  CHECK(splits({"a", "b", "a", "b"}));
  CHECK(splits({"a", "a", "b", "b", "a", "a", "b", "b"}));
  CHECK(splits({"a", "a", "b", "b", "c", "c", "d", "d"}));
  CHECK(splits({"a", "a"}));
  CHECK_FALSE(splits({"a", "b", "b", "a"}));
  CHECK_FALSE(splits({"a", "a", "a", "b"}));
  CHECK_FALSE(splits({"a", "a", "b"}));
  CHECK_FALSE(splits({"a", "b", "c", "c"}));
}

TEST_CASE("the shares of a plan cover the stream once and in order, and only the last piece may be partial") {
  const std::size_t bytes = GENERATE(0u, 1u, 4096u, 4097u, 100'000u, 1'048'576u, 5'000'001u);
  const std::size_t cross_host_groups = GENERATE(1u, 2u, 3u, 8u);
  CAPTURE(bytes, cross_host_groups);
  const auto plan = share_plan::of(bytes, cross_host_groups, std::size_t{512} << 10, 4096);
  std::size_t at = 0;
  for (std::size_t piece = 0; piece < plan.pieces; ++piece) {
    CHECK(plan.piece(piece, bytes).from == at);
    CHECK(plan.piece(piece, bytes).bytes > 0);
    for (std::size_t cross_host_group = 0; cross_host_group < cross_host_groups; ++cross_host_group) {
      const auto share = plan.share(piece, cross_host_group, bytes);
      CHECK(share.from == at);
      CHECK(share.bytes <= plan.share_bytes);
      if (piece + 1 < plan.pieces)
        CHECK(share.bytes == plan.share_bytes);
      at += share.bytes;
    }
    CHECK(plan.share(piece, cross_host_groups, bytes).bytes == 0);
  }
  CHECK(at == bytes);
}
