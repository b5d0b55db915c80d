#include "collectives/negotiation/fast_path_granter.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

fast_path_options options() {
  fast_path_options result;
  result.on = result.one_host = true;
  result.limit_bytes = 100;
  result.area_bytes = 200;
  result.footprint = [](std::size_t bytes) { return bytes; };
  return result;
}

cached_tensor tensor(std::uint32_t id, std::size_t bytes) {
  cached_tensor result;
  result.id = id;
  result.name = std::string("a");
  result.uses = 2;
  result.as_ready.bytes = bytes;
  return result;
}

} // namespace

TEST_CASE("a tensor that is granted a cell knows its offset, and the assignment announces it") {
  fast_path_granter granter(options());
  auto first = tensor(1, 60);
  REQUIRE(granter.grant(first));
  auto second = tensor(2, 40);
  const auto assigned = granter.grant(second);
  REQUIRE(assigned);
  CHECK(*assigned == assignment{2, "a", 60, 40, second.signature});
  CHECK(second.cell == 60);
  CHECK_FALSE(second.fast_path_refused);
}

TEST_CASE("a tensor that was refused a cell is not tried again") {
  fast_path_granter granter(options());
  auto large = tensor(1, 101);
  CHECK_FALSE(granter.grant(large));
  CHECK(large.fast_path_refused);
  CHECK(large.cell < 0);
  large.as_ready.bytes = 1;
  CHECK_FALSE(granter.grant(large));
  CHECK(granter.forget_all().empty());
}

TEST_CASE("a tensor of a group gets no cell by itself, and is not marked as refused") {
  fast_path_granter granter(options());
  auto grouped = tensor(1, 4);
  grouped.group = 7;
  CHECK_FALSE(granter.grant(grouped));
  CHECK_FALSE(grouped.fast_path_refused);
}

TEST_CASE("forget_all returns all ids with a cell except those that were forgotten") {
  fast_path_granter granter(options());
  for (const std::uint32_t id : {3, 1, 2}) {
    auto granted = tensor(id, 10);
    REQUIRE(granter.grant(granted));
  }
  granter.forget(1);
  granter.forget(77);
  CHECK(granter.forget_all() == std::vector<std::uint32_t>{3, 2});
  CHECK(granter.forget_all().empty());
}

namespace {

/// Grants cells to a group of two allreduces.
std::vector<assignment> grant_both(fast_path_granter& granter, cached_tensor& first, cached_tensor& second) {
  first.group = second.group = 7;
  cached_tensor* const group[] = {&first, &second};
  return granter.grant_group(group);
}

fast_path_options with_groups() {
  auto result = options();
  result.group_bytes = 150;
  return result;
}

} // namespace

TEST_CASE("all tensors of a group get a cell") {
  fast_path_granter granter(with_groups());
  auto first = tensor(1, 60), second = tensor(2, 40);
  CHECK(grant_both(granter, first, second).size() == 2);
  CHECK(first.cell == 0);
  CHECK(second.cell == 60);
  CHECK(granter.forget_all() == std::vector<std::uint32_t>{1, 2});
}

TEST_CASE("if one tensor of a group gets no cell, none does, and no area is used up") {
  auto first = tensor(1, 60), second = tensor(2, 40);
  SECTION("a tensor is too large for a cell") {
    second.as_ready.bytes = 101;
  }
  SECTION("the group is too large") {
    first.as_ready.bytes = second.as_ready.bytes = 80;
  }
  SECTION("a tensor was refused before") {
    first.fast_path_refused = true;
  }
  SECTION("members bring different numbers of rows") {
    second.signature.operation = operation::allgather;
  }
  fast_path_granter granter(with_groups());
  CHECK(grant_both(granter, first, second).empty());
  CHECK(first.cell < 0);
  CHECK(second.cell < 0);
  CHECK(first.fast_path_refused);
  CHECK(second.fast_path_refused);
  auto alone = tensor(3, 100);
  REQUIRE(granter.grant(alone));
  CHECK(alone.cell == 0);
}
