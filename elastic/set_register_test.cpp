#include "elastic/set_register.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

using numbers = std::vector<std::int32_t>;

hello having(std::vector<kept_set> sets) {
  hello greeting;
  greeting.keeps_sets = true;
  greeting.sets = std::move(sets);
  return greeting;
}

kept_set of_init(std::uint32_t place, numbers slots) {
  return {{0, false, place}, place + 1, std::move(slots)};
}

kept_set added(std::uint64_t born, std::uint32_t id, numbers slots) {
  return {{born, false, 1}, id, std::move(slots)};
}

const kept_set by_rule{{0, true, 0}, 9, {}};

} // namespace

TEST_CASE("a set follows its members to their new ranks, and loses members that are gone") {
  const auto greeting = having({of_init(0, {0, 2}), of_init(1, {1, 3}), added(1, 3, {0, 1, 3})});
  const auto next = surviving({{0, 0, &greeting}, {2, 1, &greeting}, {3, 2, &greeting}});
  CHECK(next.kept);
  REQUIRE(next.sets.size() == 3);
  CHECK(next.sets[0] == kept_set{{0, false, 0}, 1, {0, 1}});
  CHECK(next.sets[1] == kept_set{{0, false, 1}, 2, {2}});
  CHECK(next.sets[2].members == numbers{0, 2});
}

TEST_CASE("sets that have shrunk to the same members stay separate, even if they hold all ranks") {
  const auto greeting = having({of_init(0, {0, 2}), of_init(1, {0, 1})});
  const auto next = surviving({{0, 0, &greeting}});
  REQUIRE(next.sets.size() == 2);
  CHECK(next.sets[0].members == numbers{0});
  CHECK(next.sets[1].members == numbers{0});
  CHECK(next.sets[0].id != next.sets[1].id);
}

TEST_CASE("a set without members is dropped, except a set by rule") {
  const auto greeting = having({of_init(0, {1}), of_init(1, {0, 1}), by_rule});
  const auto next = surviving({{0, 0, &greeting}});
  REQUIRE(next.sets.size() == 2);
  CHECK(next.sets[0].id == 2);
  CHECK(next.sets[1] == by_rule);
}

TEST_CASE("an added set that not every survivor has seen is dropped") {
  const auto seen = having({of_init(0, {0, 1}), added(4, 2, {0, 1})});
  const auto other = having({of_init(0, {0, 1})});
  for (auto& order : {std::vector<survivor>{{0, 0, &seen}, {1, 1, &other}},
                      std::vector<survivor>{{0, 0, &other}, {1, 1, &seen}}}) {
    const auto next = surviving(order);
    REQUIRE(next.sets.size() == 1);
    CHECK(next.sets[0].origin == set_origin{0, false, 0});
  }
}

TEST_CASE("sets with the same id are the same only if their origin is equal") {
  const auto first = having({added(2, 1, {0, 1})});
  const auto other = having({added(3, 1, {0, 1})});
  CHECK(surviving({{0, 0, &first}, {1, 1, &other}}).sets.empty());
}

TEST_CASE("a hello with older sets cannot bring back a member that was lost since") {
  const auto older = having({of_init(0, {0, 1, 2})});
  const auto newer = having({of_init(0, {0, 1})});
  const auto next = surviving({{0, 0, &older}, {1, 1, &newer}, {2, 2, &newer}});
  REQUIRE(next.sets.size() == 1);
  CHECK(next.sets[0].members == numbers{0, 1});
}

TEST_CASE("if no survivor has sets, none are kept") {
  const hello fresh;
  CHECK_FALSE(surviving({{0, 0, &fresh}, {1, 1, &fresh}}).kept);
  CHECK_FALSE(surviving({}).kept);
}

TEST_CASE("one survivor that has begun anew has no sets, so that none is kept") {
  const auto greeting = having({of_init(0, {0, 1})});
  const hello fresh;
  const auto next = surviving({{0, 0, &greeting}, {1, 1, &fresh}});
  CHECK(next.kept);
  CHECK(next.sets.empty());
}
