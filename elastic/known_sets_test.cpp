#include "elastic/known_sets.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

std::vector<member> members_in_slots(std::initializer_list<std::int32_t> slots) {
  std::vector<member> all;
  for (const auto slot : slots) {
    all.emplace_back();
    all.back().rank = static_cast<std::int32_t>(all.size()) - 1;
    all.back().slot = slot;
  }
  return all;
}

std::vector<std::uint32_t> ids(const std::vector<kept_set>& sets) {
  std::vector<std::uint32_t> found;
  for (const auto& set : sets)
    found.push_back(set.id);
  return found;
}

} // namespace

TEST_CASE("sets are kept by slots, in ascending order") {
  known_sets sets;
  sets.begin({{{1, false, 1}, 1, {0, 2}}});
  const auto kept = sets.to_keep(members_in_slots({7, 5, 3}));
  REQUIRE(kept.size() == 1);
  CHECK(kept[0].members == std::vector<std::int32_t>{3, 7});
}

TEST_CASE("no members are kept of a set by rule, as the next generation chooses them") {
  known_sets sets;
  sets.begin({{{1, true, 1}, 1, {0, 1}}});
  const auto kept = sets.to_keep(members_in_slots({0, 1}));
  REQUIRE(kept.size() == 1);
  CHECK(kept[0].members.empty());
}

TEST_CASE("sets are kept in the order of their ids, and each origin counts all earlier changes") {
  known_sets sets;
  sets.begin({{{1, false, 1}, 2, {0}}});
  sets.added(4, 3, {0, 1});
  sets.added(4, 1, {1});
  const auto members = members_in_slots({0, 1});
  auto kept = sets.to_keep(members);
  CHECK(ids(kept) == std::vector<std::uint32_t>{1, 2, 3});
  CHECK(kept[2].origin == set_origin{4, false, 1});
  CHECK(kept[0].origin == set_origin{4, false, 2});
  sets.removed(2);
  sets.removed(3);
  sets.added(4, 2, {0});
  kept = sets.to_keep(members);
  CHECK(ids(kept) == std::vector<std::uint32_t>{1, 2});
  CHECK(kept[1].origin == set_origin{4, false, 5});
}
