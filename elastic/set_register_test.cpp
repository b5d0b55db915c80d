#include "elastic/set_register.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

using numbers = std::vector<std::int32_t>;

hello having(std::vector<kept_set> sets) {
  hello said;
  said.keeps_sets = true;
  said.sets = std::move(sets);
  return said;
}

kept_set of_init(std::uint32_t place, numbers slots) {
  return {{0, false, place}, place + 1, std::move(slots)};
}

kept_set added(std::uint64_t born, std::uint32_t id, numbers slots) {
  return {{born, false, 1}, id, std::move(slots)};
}

const kept_set by_rule{{0, true, 0}, 9, {}};

} // namespace

TEST_CASE("a set follows its members to their new ranks, and loses who is not there") {
  const auto said = having({of_init(0, {0, 2}), of_init(1, {1, 3}), added(1, 3, {0, 1, 3})});
  const auto next = surviving({{0, 0, &said}, {2, 1, &said}, {3, 2, &said}});
  CHECK(next.kept);
  REQUIRE(next.sets.size() == 3);
  CHECK(next.sets[0] == kept_set{{0, false, 0}, 1, {0, 1}});
  CHECK(next.sets[1] == kept_set{{0, false, 1}, 2, {2}});
  CHECK(next.sets[2].members == numbers{0, 2});
}

TEST_CASE("sets that have shrunk to the same members stay apart, also where these are all") {
  const auto said = having({of_init(0, {0, 2}), of_init(1, {0, 1})});
  const auto next = surviving({{0, 0, &said}});
  REQUIRE(next.sets.size() == 2);
  CHECK(next.sets[0].members == numbers{0});
  CHECK(next.sets[1].members == numbers{0});
  CHECK(next.sets[0].id != next.sets[1].id);
}

TEST_CASE("a set without members is gone, but not one by rule") {
  const auto said = having({of_init(0, {1}), of_init(1, {0, 1}), by_rule});
  const auto next = surviving({{0, 0, &said}});
  REQUIRE(next.sets.size() == 2);
  CHECK(next.sets[0].id == 2);
  CHECK(next.sets[1] == by_rule);
}

TEST_CASE("an addition that not every survivor has seen has not happened") {
  const auto greeting = having({of_init(0, {0, 1}), added(4, 2, {0, 1})});
  const auto other = having({of_init(0, {0, 1})});
  for (auto& order : {std::vector<survivor>{{0, 0, &greeting}, {1, 1, &other}},
                      std::vector<survivor>{{0, 0, &other}, {1, 1, &greeting}}}) {
    const auto next = surviving(order);
    REQUIRE(next.sets.size() == 1);
    CHECK(next.sets[0].origin == set_origin{0, false, 0});
  }
}

TEST_CASE("sets of the same id are one only if they come from the same place") {
  const auto greeting = having({added(2, 1, {0, 1})});
  const auto other = having({added(3, 1, {0, 1})});
  CHECK(surviving({{0, 0, &greeting}, {1, 1, &other}}).sets.empty());
}

TEST_CASE("who speaks of an older generation cannot bring back who was lost since") {
  const auto older = having({of_init(0, {0, 1, 2})});
  const auto newer = having({of_init(0, {0, 1})});
  const auto next = surviving({{0, 0, &older}, {1, 1, &newer}, {2, 2, &newer}});
  REQUIRE(next.sets.size() == 1);
  CHECK(next.sets[0].members == numbers{0, 1});
}

TEST_CASE("where nobody goes on with sets, all found theirs") {
  const hello fresh;
  CHECK_FALSE(surviving({{0, 0, &fresh}, {1, 1, &fresh}}).kept);
  CHECK_FALSE(surviving({}).kept);
}

TEST_CASE("one survivor that has begun anew has no sets, so none goes on") {
  const auto said = having({of_init(0, {0, 1})});
  const hello fresh;
  const auto next = surviving({{0, 0, &said}, {1, 1, &fresh}});
  CHECK(next.kept);
  CHECK(next.sets.empty());
}
