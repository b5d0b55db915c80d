#include "elastic/initial_sets.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

using numbers = std::vector<std::int32_t>;
using ids = std::vector<std::uint32_t>;

welcome of_size(std::int32_t size) {
  welcome told;
  for (std::int32_t rank = 0; rank < size; ++rank) {
    member member_info;
    member_info.rank = rank;
    member_info.local_rank = rank / 2;
    member_info.host_name = std::string(1, rank % 2 ? 'b' : 'a');
    told.members.push_back(member_info);
  }
  return told;
}

const set_rule first_on_host = [](const member_facts& facts) { return facts.local_rank == 0; };
const set_rule on_b = [](const member_facts& facts) { return facts.host == "b"; };
const set_rule no_member = [](const member_facts&) { return false; };
const set_rule every_member = [](const member_facts& facts) { return facts.size > 0; };

} // namespace

TEST_CASE("the first generation founds the sets of init(), with the sets by rule last") {
  const auto begun = create_initial_sets(of_size(4), {{{0, 2}, {1}}, {first_on_host, on_b}});
  REQUIRE(begun);
  CHECK(begun->change.kind == set_change_kind::create);
  CHECK(begun->change.sets == std::vector<numbers>{{0, 2}, {1}, {0, 1}, {1, 3}});
  CHECK(begun->change.ids == ids{1, 2, 3, 4});
  CHECK(begun->sets[2] == kept_set{{0, true, 0}, 3, {0, 1}});
}

TEST_CASE("equal lists are one set and a list of all ranks is the global set, but each rule is a set") {
  const auto begun = create_initial_sets(of_size(2), {{{0}, {0}, {0, 1}, {1}}, {every_member, every_member}});
  REQUIRE(begun);
  CHECK(begun->change.ids == ids{1, 1, 0, 2, 3, 4});
  CHECK(begun->sets.size() == 4);
  CHECK(begun->sets[1].origin == set_origin{0, false, 3});
}

TEST_CASE("invalid lists are passed on, so that all ranks get the error") {
  const auto begun = create_initial_sets(of_size(2), {{{}, {5}}, {}});
  REQUIRE(begun);
  CHECK(begun->change.sets == std::vector<numbers>{{}, {5}});
}

TEST_CASE("a set by rule without members waits for a generation in which it has some") {
  auto told = of_size(2);
  const auto begun = create_initial_sets(told, {{}, {no_member, on_b}});
  REQUIRE(begun);
  CHECK(begun->change.sets == std::vector<numbers>{{1}});
  CHECK(begun->change.ids == ids{2});
  CHECK(begun->sets.size() == 2);
}

TEST_CASE("later generations found the sets that were kept, and ignore a new member's lists") {
  auto told = of_size(3);
  told.sets_kept = true;
  told.sets = {{{0, false, 0}, 1, {1, 2}}, {{0, true, 0}, 2, {}}, {{2, false, 1}, 5, {1, 2}}};
  const auto next = create_initial_sets(told, {{{0, 1}, {2}}, {on_b}});
  REQUIRE(next);
  CHECK(next->change.sets == std::vector<numbers>{{1, 2}, {1}, {1, 2}});
  CHECK(next->change.ids == ids{1, 2, 5});
  CHECK(next->sets[1].members == numbers{1});
}

TEST_CASE("a new member that lacks a rule gets an error that names the set") {
  auto told = of_size(1);
  told.sets_kept = true;
  told.sets = {{{0, true, 1}, 4, {}}};
  const auto next = create_initial_sets(told, {{}, {every_member}});
  REQUIRE_FALSE(next);
  CHECK_THAT(next.error().text, Catch::Contains("process set 4") && Catch::Contains("gives 1"));
}

TEST_CASE("the error of a rule is returned") {
  const set_rule fails = [](const member_facts&) { return error{error_kind::aborted, "no"}; };
  const auto begun = create_initial_sets(of_size(2), {{}, {fails}});
  REQUIRE_FALSE(begun);
  CHECK(begun.error().text == "no");
}
