#include "collectives/negotiation/set_registry.hpp"

#include <catch2/catch.hpp>

#include <numeric>

using namespace farandole;

namespace {

using ranks = std::vector<std::int32_t>;

set_change add(ranks ranks) {
  return {set_change_kind::add, 0, {std::move(ranks)}};
}

set_change create(std::vector<ranks> ranks_list) {
  return {set_change_kind::create, 0, std::move(ranks_list)};
}

set_change removal(std::uint32_t id) {
  return {set_change_kind::remove, id, {}};
}

/// All ranks request the same change, rank 0 last; returns the answer to the last request.
set_registry::answer agreed(set_registry& registry, std::int32_t size, const set_change& change) {
  for (auto rank = size - 1; rank > 0; --rank) {
    auto early = registry.ask(rank, change);
    CHECK(!early.decided);
    CHECK(!early.breach);
  }
  auto last = registry.ask(0, change);
  CHECK(last.decided);
  return last;
}

std::string refused(set_registry& registry, std::int32_t size, const set_change& change) {
  auto result = agreed(registry, size, change);
  CHECK(result.events.empty());
  CHECK(result.problem.kind == error_kind::invalid_argument);
  return result.problem.text;
}

} // namespace

TEST_CASE("a set starts, and ends, when every rank has requested it") {
  set_registry registry(3);
  auto begun = agreed(registry, 3, add({0, 2}));
  CHECK(!begun.problem);
  CHECK(begun.events == std::vector<set_event>{{1, 1, false, {0, 2}}});
  CHECK(registry.sets().size() == 1);
  auto ended = agreed(registry, 3, removal(1));
  CHECK(!ended.problem);
  CHECK(ended.events == std::vector<set_event>{{1, 1, true, {0, 2}}});
  CHECK(registry.sets().empty());
}

TEST_CASE("ids of removed sets are reused, the oldest first, and numbers are not") {
  set_registry registry(4);
  for (auto& numbers : {ranks{0}, ranks{1}, ranks{2}})
    agreed(registry, 4, add(numbers));
  agreed(registry, 4, removal(3));
  agreed(registry, 4, removal(1));
  std::vector<std::pair<std::uint32_t, std::uint32_t>> given;
  for (auto& numbers : {ranks{3}, ranks{0, 1}, ranks{0, 3}}) {
    auto events = agreed(registry, 4, add(numbers)).events;
    REQUIRE(events.size() == 1);
    given.emplace_back(events[0].number, events[0].id);
  }
  CHECK(given == std::vector<std::pair<std::uint32_t, std::uint32_t>>{{4, 3}, {5, 1}, {6, 4}});
}

TEST_CASE("changes on which ranks differ fail, and the first two ranks that differ are named") {
  set_registry registry(3);
  registry.ask(0, add({0, 1}));
  registry.ask(1, add({0, 1}));
  auto result = registry.ask(2, removal(7));
  CHECK(result.decided);
  CHECK(result.events.empty());
  CHECK(result.problem.text == "ranks must change process sets alike, but rank 0 adds a process set of ranks "
                               "[0, 1] and rank 2 removes process set 7");
  // Later changes are possible.
  CHECK(agreed(registry, 3, add({0, 1})).events.size() == 1);
}

TEST_CASE("invalid sets are refused for all ranks") {
  set_registry registry(3);
  agreed(registry, 3, add({1}));
  CHECK(refused(registry, 3, add({})) == "a process set needs at least one rank");
  CHECK(refused(registry, 3, add({1, 1})) == "a process set of ranks [1, 1] names rank 1 twice");
  CHECK(refused(registry, 3, add({0, 3})) ==
        "a process set of ranks [0, 3] names rank 3; this job has ranks 0 to 2");
  CHECK(refused(registry, 3, add({-1, 0})) ==
        "a process set of ranks [-1, 0] names rank -1; this job has ranks 0 to 2");
  CHECK(refused(registry, 3, add({1})) == "a process set of ranks [1] exists already: it has id 1");
  CHECK(refused(registry, 3, add({0, 1, 2})) ==
        "a process set of ranks [0, 1, 2] exists already: it is the global one");
  CHECK(refused(registry, 3, removal(0)) == "the global process set cannot be removed");
  CHECK(refused(registry, 3, removal(2)) == "there is no process set 2");
  CHECK(registry.sets().size() == 1);
}

TEST_CASE("equal sets at the start become one, and a set equal to the global set is not created") {
  set_registry registry(3);
  auto begun = agreed(registry, 3, create({{0}, {0, 1, 2}, {1, 2}, {0}}));
  CHECK(!begun.problem);
  CHECK(begun.events == std::vector<set_event>{{1, 1, false, {0}}, {2, 2, false, {1, 2}}});
}

TEST_CASE("an invalid set at the start makes the whole start fail") {
  set_registry registry(2);
  CHECK(refused(registry, 2, create({{0}, {1, 1}})) == "a process set of ranks [1, 1] names rank 1 twice");
  CHECK(registry.sets().empty());
  registry.ask(0, create({}));
  CHECK(
      registry.ask(1, create({{0}, {1}})).problem.text ==
      "ranks must change process sets alike, but rank 0 starts without process sets and rank 1 starts with 2 "
      "process sets: [0], [1]");
}

TEST_CASE(
    "a rank that requests a second change before the answer breaks the protocol, and its first counts") {
  set_registry registry(2);
  registry.ask(1, add({1}));
  auto again = registry.ask(1, add({0}));
  CHECK(again.breach);
  CHECK(!again.decided);
  CHECK(registry.ask(0, add({1})).events.size() == 1);
}

TEST_CASE("the number of process sets is limited") {
  constexpr auto size = static_cast<std::int32_t>(set_limit) + 1;
  set_registry registry(size);
  std::vector<ranks> all;
  for (std::int32_t rank = 0; rank < size; ++rank)
    all.push_back({rank});
  CHECK(refused(registry, size, create(all)) == "there can be at most 1024 process sets");
  all.pop_back();
  CHECK(agreed(registry, size, create(all)).events.size() == set_limit);
  CHECK(refused(registry, size, add({size - 1})) ==
        "there are 1024 process sets already; remove one before adding another");
}

TEST_CASE("a set that fails restarts under its id with the next number") {
  using namespace std::chrono_literals;
  set_registry registry(3);
  CHECK(agreed(registry, 3, create({{0, 1}, {1, 2}})).events.size() == 2);
  auto first = registry.failed(1, {1, "it broke"}, 0s).restart;
  CHECK(first == set_restart{1, set_event{3, 1, false, {0, 1}}, "on rank 1: it broke"});
  CHECK(registry.failed(0, {3, "again"}, 0s).restart.begins->number == 4);
  CHECK(registry.sets().at(2).number == 2);
}

TEST_CASE("a late fault of a set that was restarted or removed restarts nothing") {
  using namespace std::chrono_literals;
  set_registry registry(3);
  CHECK(agreed(registry, 3, create({{0, 1}})).events.size() == 1);
  CHECK(registry.failed(1, {1, "it broke"}, 0s).restart.begins);
  CHECK(registry.failed(0, {1, "here too"}, 0s).restart == set_restart{1, {}, "on rank 0: here too"});
  CHECK(agreed(registry, 3, removal(1)).events == std::vector<set_event>{{2, 1, true, {0, 1}}});
  CHECK(registry.failed(0, {2, "late"}, 0s).restart == set_restart{2, {}, "on rank 0: late"});
}

TEST_CASE("a fault in a set that never existed breaks the protocol") {
  using namespace std::chrono_literals;
  set_registry registry(2);
  CHECK(agreed(registry, 2, create({{0}})).events.size() == 1);
  CHECK(registry.failed(1, {2, ""}, 0s).breach.text ==
        "rank 1 reports a fault in a process set of number 2, which has not started");
  CHECK(registry.failed(1, {0, ""}, 0s).breach);
}

TEST_CASE("a set that fails too often in too short a time is given up") {
  using namespace std::chrono_literals;
  set_registry registry(2);
  CHECK(agreed(registry, 2, create({{0}})).events.size() == 1);
  std::uint32_t number = 1;
  for (auto current_time : {0s, 4s, 8s, 11s})
    number = registry.failed(0, {number, "broken"}, current_time).restart.begins.value().number;
  auto last = registry.failed(0, {number, "broken"}, 12s).restart;
  CHECK(!last.begins);
  CHECK(last.given_up);
  CHECK(last.reason == "process set 1 failed 4 times within 10 s, the last time on rank 0: broken");
}

TEST_CASE("a set with the id of a removed one starts without failures") {
  using namespace std::chrono_literals;
  set_registry registry(2);
  for (int i = 0; i < 4; ++i) {
    auto number = agreed(registry, 2, add({0})).events.at(0).number;
    for (int failures = 0; failures < 3; ++failures) {
      const auto restart = registry.failed(0, {number, "broken"}, 1s).restart;
      REQUIRE(restart.begins);
      number = restart.begins->number;
    }
    agreed(registry, 2, removal(1));
  }
}

TEST_CASE("sets from an earlier generation keep their ids, even with equal ranks") {
  set_registry registry(2);
  auto again = create({{0}, {0, 1}, {0}});
  again.ids = {2, 4, 5};
  auto begun = agreed(registry, 2, again);
  CHECK(!begun.problem);
  CHECK(begun.events ==
        std::vector<set_event>{{1, 2, false, {0}}, {2, 4, false, {0, 1}}, {3, 5, false, {0}}});
  CHECK_THAT(refused(registry, 2, add({0})), Catch::Contains("exists already: it has id 2"));
  // The lowest id that was free before is given out first.
  CHECK(agreed(registry, 2, add({1})).events.at(0).id == 1);
  agreed(registry, 2, removal(2));
  agreed(registry, 2, removal(5));
  CHECK(agreed(registry, 2, add({0})).events.at(0).id == 3);
}

TEST_CASE("an entry that stands for an earlier set or the global set creates no set") {
  set_registry registry(2);
  auto given = create({{0}, {0}, {0, 1}});
  given.ids = {1, 1, 0};
  CHECK(agreed(registry, 2, given).events == std::vector<set_event>{{1, 1, false, {0}}});
}

TEST_CASE("ranks that disagree on a set by name are told which set, and both answers") {
  auto named_sets = [](std::vector<ranks> sets, std::vector<std::uint32_t> ids) {
    auto change = create(std::move(sets));
    change.ids = std::move(ids);
    return change;
  };
  auto told = [](const set_change& zero, const set_change& entry) {
    set_registry registry(2);
    registry.ask(0, zero);
    return registry.ask(1, entry).problem.text;
  };
  const std::string text =
      "ranks must agree on the members of process set 2, but on rank 0 it has ranks [0] and on rank 1 it ";
  CHECK(told(named_sets({{1}, {0}}, {1, 2}), named_sets({{1}, {1}}, {1, 2})) == text + "has ranks [1]");
  CHECK(told(named_sets({{1}, {0}}, {1, 2}), named_sets({{1}, {0}}, {1, 3})) == text + "has none");
  CHECK(told(named_sets({{1}, {0}}, {1, 2}), named_sets({{1}}, {1})) == text + "has none");
}

TEST_CASE("of more than 16 ranks the first and the last eight are listed") {
  ranks sixteen(16), more(17);
  std::iota(sixteen.begin(), sixteen.end(), 0);
  std::iota(more.begin(), more.end(), 0);
  CHECK(ranks_to_text(sixteen) == "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]");
  CHECK(ranks_to_text(more) == "[0, 1, 2, 3, 4, 5, 6, 7, …, 9, 10, 11, 12, 13, 14, 15, 16]");
}

TEST_CASE("of many process sets the first eight are listed") {
  const auto told = [](std::size_t count) {
    set_registry registry(2);
    registry.ask(0, create(std::vector<ranks>(count, {0})));
    return registry.ask(1, create({})).problem.text;
  };
  CHECK_THAT(told(1), Catch::Contains("starts with 1 process set: [0] and"));
  CHECK_THAT(told(8), Catch::Contains("8 process sets: [0], [0], [0], [0], [0], [0], [0], [0] and"));
  CHECK_THAT(told(9), Catch::Contains("9 process sets: [0], [0], [0], [0], [0], [0], [0], [0], … and"));
}

TEST_CASE("a rank that names its sets by id and a rank that does not disagree") {
  auto named = create({{0}});
  named.ids = {1};
  for (const bool first_names : {true, false}) {
    set_registry registry(2);
    registry.ask(0, first_names ? named : create({{0}}));
    CHECK_THAT(registry.ask(1, first_names ? create({{0}}) : named).problem.text,
               Catch::Contains("ranks must change process sets alike"));
  }
}
