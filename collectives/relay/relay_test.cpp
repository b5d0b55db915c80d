#include <numeric>

#include "collectives/relay/relay_testing.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

TEST_CASE("what all below have asked for goes up once, for all") {
  auto relay_node = made();
  relay_node.take(4, ids({1, 2, 3}), 1us);
  relay_node.take(5, ids({2, 1}), 1us);
  CHECK(!relay_node.take(8, below_8({1, 2, 3}), 1us));
  CHECK(relay_node.due(1us).empty());
  relay_node.take(6, ids({1, 2}), 2us);
  const auto up = relay_node.due(2us);
  REQUIRE(up.ids.size() == 1);
  CHECK(up.ids[0].ids == std::vector<std::uint32_t>{1, 2});
  CHECK(up.ids[0].ranks.empty());
  CHECK(up.full.empty());
  CHECK(up.apart.empty());
}

TEST_CASE("the next step's request begins anew") {
  auto relay_node = made();
  for (int step = 0; step < 3; ++step) {
    const auto current_time = 2ms * (step + 1);
    for (auto rank : {4, 5, 6})
      relay_node.take(rank, ids({7}), current_time);
    CHECK(relay_node.due(current_time).empty());
    CHECK(!relay_node.take(8, below_8({7}), current_time));
    CHECK(relay_node.due(current_time).ids == std::vector<gathered_ids>{{{7}, {}}});
  }
  CHECK(!relay_node.wake_at());
}

namespace {

schedule moving(std::vector<std::uint32_t> which) {
  schedule plan;
  plan.bundles.emplace_back();
  for (auto id : which) {
    plan.bundles[0].entries.emplace_back();
    plan.bundles[0].entries.back().id = id;
  }
  return plan;
}

} // namespace

TEST_CASE("what becomes ready before a message is answered goes up together, when it is") {
  auto relay_node = made();
  all_ask(relay_node, 1, 1000us);
  all_ask(relay_node, 2, 1000us);
  CHECK(relay_node.wake_at() <= 1000us);
  CHECK(!relay_node.due(1000us).empty());
  all_ask(relay_node, 3, 1010us);
  all_ask(relay_node, 4, 1020us);
  relay_node.hear(moving({1, 9}));
  CHECK(relay_node.due(1020us).empty());
  relay_node.hear(moving({2}));
  CHECK(relay_node.wake_at() <= 1020us);
  CHECK(relay_node.due(1030us).ids == std::vector<gathered_ids>{{{3, 4}, {}}});
}

TEST_CASE("an answer is not waited for beyond the bound") {
  auto relay_node = made();
  all_ask(relay_node, 1, 1ms);
  CHECK(!relay_node.due(1ms).empty());
  all_ask(relay_node, 2, 2ms);
  CHECK(relay_node.wake_at() == 3ms);
  CHECK(relay_node.due(2999us).empty());
  CHECK(relay_node.due(3ms).ids == std::vector<gathered_ids>{{{2}, {}}});
  // The first has not been answered yet; that does not matter any more.
  relay_node.hear(moving({2}));
  all_ask(relay_node, 3, 3100us);
  CHECK(!relay_node.due(3100us).empty());
}

TEST_CASE("a caller that waits for each tensor waits for nothing else") {
  auto relay_node = made();
  for (std::uint32_t id = 1; id < 10; ++id) {
    const auto current_time = 10us * id;
    all_ask(relay_node, id, current_time);
    CHECK(!relay_node.due(current_time).empty());
    relay_node.hear(moving({id}));
  }
}

TEST_CASE("full requests are answered by the ids that they get, or by their failure") {
  auto relay_node = made();
  const auto ask = [&](const std::string& name, std::chrono::nanoseconds current_time) {
    for (auto rank : {4, 5, 6})
      relay_node.take(rank, in_full(full(name, 3)), current_time);
    gathered from_8;
    from_8.full = {{full(name, 3), {}}};
    CHECK(!relay_node.take(8, from_8, current_time));
    return !relay_node.due(current_time).empty();
  };
  CHECK(ask("a", 1ms));
  CHECK_FALSE(ask("b", 1ms));
  schedule plan;
  plan.assignments = {{1, "a", -1, 0, {}}};
  relay_node.hear(plan);
  CHECK(!relay_node.due(1ms).empty());
  CHECK_FALSE(ask("c", 1ms));
  plan.assignments.clear();
  plan.failures = {{"b", {}}};
  relay_node.hear(plan);
  CHECK(!relay_node.due(1ms).empty());
}

TEST_CASE("what waits for others goes up after a while, and the rest of it as soon as it has come") {
  auto relay_node = made();
  relay_node.take(5, ids({7}), 1ms);
  relay_node.take(6, ids({7}), 2ms);
  CHECK(!relay_node.take(8, below_8({7}, {{9, 1}}), 2ms));
  CHECK(relay_node.wake_at() == 51ms);
  CHECK(relay_node.due(50ms).empty());
  CHECK(relay_node.due(51ms).ids == std::vector<gathered_ids>{{{7}, {{5, 2}, {9, 1}}}});
  relay_node.take(4, ids({7}), 60ms);
  CHECK(relay_node.due(60ms).empty());
  CHECK(!relay_node.take(8, below_8({7}, {{8, 1}}), 61ms));
  CHECK(relay_node.due(61ms).ids == std::vector<gathered_ids>{{{7}, {{4, 1}, {8, 1}}}});
  CHECK(!relay_node.wake_at());
}

TEST_CASE("equal full requests are one, different ones go up side by side") {
  auto relay_node = made();
  for (auto rank : {4, 6})
    relay_node.take(rank, in_full(full("a", 3)), 1ms);
  relay_node.take(5, in_full(full("a", 4)), 1ms);
  gathered from_8;
  from_8.full = {{full("a", 3), {}}};
  CHECK(!relay_node.take(8, from_8, 1ms));
  const auto up = relay_node.due(1ms);
  CHECK(up.full ==
        std::vector<gathered_request>{{full("a", 3), {{4, 1}, {6, 1}, {8, 2}}}, {full("a", 4), {{5, 1}}}});
  CHECK(!relay_node.wake_at());
}

TEST_CASE("requests that differ only in whether they want a seat are one, that wants none") {
  auto no_fast_path = full("a", 3);
  no_fast_path.no_fast_path = true;
  for (const bool first : {true, false}) {
    auto relay_node = made();
    relay_node.take(4, in_full(first ? no_fast_path : full("a", 3)), 1us);
    relay_node.take(5, in_full(first ? full("a", 3) : no_fast_path), 1us);
    relay_node.take(6, in_full(full("a", 3)), 1us);
    gathered from_8;
    from_8.full = {{full("a", 3), {}}};
    CHECK(!relay_node.take(8, from_8, 1us));
    CHECK(relay_node.due(1us).full == std::vector<gathered_request>{{no_fast_path, {}}});
  }
}

TEST_CASE("a full request that stays alone goes up after a shorter while") {
  auto relay_node = made();
  relay_node.take(5, in_full(full("a", 4)), 1ms);
  for (auto rank : {4, 6})
    relay_node.take(rank, ids({7}), 1ms);
  CHECK(relay_node.due(3ms).full == std::vector<gathered_request>{{full("a", 4), {{5, 1}}}});
  // The leader forgets the id, and has to know who waits under it.
  schedule plan;
  plan.forget = {7};
  relay_node.hear(plan);
  CHECK(relay_node.due(5ms).ids == std::vector<gathered_ids>{{{7}, {{4, 1}, {6, 1}}}});
  CHECK(!relay_node.wake_at());
}

TEST_CASE("who has joined is not waited for, until all have") {
  auto relay_node = made();
  requests join;
  join.join = true;
  for (auto rank : {4, 6})
    relay_node.take(rank, ids({7}), 1ms);
  CHECK(!relay_node.take(8, below_8({7}), 1ms));
  relay_node.take(5, join, 1ms);
  const auto up = relay_node.due(1ms);
  CHECK(up.ids == std::vector<gathered_ids>{{{7}, {{4, 1}, {6, 1}, {8, 2}}}});
  CHECK(up.apart == std::vector<said_apart>{{5, join}});
  schedule plan;
  plan.joined = 6;
  relay_node.hear(plan);
  for (auto rank : {4, 6})
    relay_node.take(rank, ids({8}), 2ms);
  CHECK(!relay_node.take(8, below_8({8}), 2ms));
  CHECK(relay_node.due(2ms).empty());
}

TEST_CASE("what a member takes back goes up behind what it had asked for") {
  auto relay_node = made();
  relay_node.take(5, ids({7}), 1ms);
  relay_node.take(6, in_full(full("a", 3)), 1ms);
  auto back = in_full(full("b", 3));
  back.withdraw = {"seven", "b"};
  relay_node.take(5, back, 1ms);
  const auto up = relay_node.due(1ms);
  CHECK(up.ids == std::vector<gathered_ids>{{{7}, {{5, 1}}}});
  CHECK(up.full == std::vector<gathered_request>{{full("b", 3), {{5, 1}}}});
  back.full.clear();
  CHECK(up.apart == std::vector<said_apart>{{5, back}});
  // It asks again, before the others have been turned away.
  relay_node.take(5, ids({7}), 3ms);
  for (auto rank : {4, 6})
    relay_node.take(rank, ids({7}), 3ms);
  CHECK(!relay_node.take(8, below_8({7}), 3ms));
  CHECK(relay_node.due(3ms).ids == std::vector<gathered_ids>{{{7}, {}}});
}

TEST_CASE("what comes with a round of the fast path that is left stays together") {
  auto relay_node = made();
  auto left = in_full(full("a", 3));
  left.left = {{7, 2}};
  relay_node.take(5, left, 1ms);
  CHECK(relay_node.due(1ms).apart == std::vector<said_apart>{{5, left}});
  CHECK(!relay_node.wake_at());
}

TEST_CASE("a member's word that a process set failed goes up as its own") {
  auto relay_node = made();
  requests fault;
  fault.faults = {{3, "it broke"}};
  relay_node.take(5, fault, 1ms);
  CHECK(relay_node.due(1ms).apart == std::vector<said_apart>{{5, fault}});
}

TEST_CASE("a relay speaks for those below it alone") {
  auto relay_node = made();
  CHECK(relay_node.take(8, below_8({7}, {{6, 1}}), 1ms));
  CHECK(relay_node.take(8, below_8({7}, {{8, 3}}), 1ms));
  CHECK(relay_node.take(9, below_8({7}), 1ms));
  gathered apart;
  apart.apart = {{4, ids({7})}};
  CHECK(relay_node.take(8, apart, 1ms));
  CHECK(relay_node.take(7, ids({7}), 1ms));
  CHECK(!relay_node.wake_at());
}

namespace {

/// Of these, without 5.
const rank_runs all_but_5{{4, 1}, {6, 1}, {8, 2}};

void others_ask(relay& relay_node, const requests& batch, const gathered& from_8,
                std::chrono::nanoseconds current_time) {
  for (auto rank : {4, 6})
    relay_node.take(rank, batch, current_time);
  CHECK(!relay_node.take(8, from_8, current_time));
}

gathered full_below_8(const request& request) {
  gathered result;
  result.full = {{request, {}}};
  return result;
}

} // namespace

TEST_CASE("a member that asks for an id again begins another round, and the one before goes up") {
  auto relay_node = made();
  relay_node.take(5, ids({7}), 1us);
  relay_node.take(5, ids({7}), 2us);
  CHECK(relay_node.due(2us).ids == std::vector<gathered_ids>{{{7}, {{5, 1}}}});
  others_ask(relay_node, ids({7}), below_8({7}), 10ms);
  CHECK(relay_node.due(10ms).ids == std::vector<gathered_ids>{{{7}, {}}});
}

TEST_CASE("who has asked in the round before is waited for in the next") {
  auto relay_node = made();
  relay_node.take(4, ids({7}), 0us);
  relay_node.take(5, ids({7}), 0us);
  CHECK(relay_node.due(50ms).ids == std::vector<gathered_ids>{{{7}, {{4, 2}}}});
  relay_node.take(5, ids({7}), 60ms);
  relay_node.take(6, ids({7}), 60ms);
  CHECK(!relay_node.take(8, below_8({7}), 60ms));
  CHECK(relay_node.due(70ms).empty());
  relay_node.take(4, ids({7}), 80ms);
  CHECK(relay_node.due(80ms).ids == std::vector<gathered_ids>{{{7}, {}}});
}

TEST_CASE("a member that asks in full again begins another round, and the one before goes up") {
  auto relay_node = made();
  relay_node.take(5, in_full(full("a", 3)), 1us);
  relay_node.take(5, in_full(full("a", 4)), 2us);
  auto up = relay_node.due(2us).full;
  REQUIRE(up.size() == 1);
  CHECK(up[0].asked_request == full("a", 3));
  CHECK(up[0].ranks == rank_runs{{5, 1}});
  others_ask(relay_node, in_full(full("a", 4)), full_below_8(full("a", 4)), 10ms);
  up = relay_node.due(10ms).full;
  REQUIRE(up.size() == 1);
  CHECK(up[0].asked_request == full("a", 4));
  CHECK(up[0].ranks.empty());
}

TEST_CASE("what a member takes back goes up before that, and nothing of others does") {
  auto relay_node = made();
  relay_node.take(5, in_full(full("a", 3)), 1us);
  relay_node.take(6, in_full(full("b", 3)), 1us);
  auto back = ids({7});
  back.withdraw = {"a"};
  relay_node.take(5, back, 2us);
  const auto up = relay_node.due(2us);
  CHECK(up.ids == std::vector<gathered_ids>{{{7}, {{5, 1}}}});
  REQUIRE(up.full.size() == 1);
  CHECK(up.full[0].asked_request == full("a", 3));
  REQUIRE(up.apart.size() == 1);
  CHECK(up.apart[0].rank == 5);
  CHECK(up.apart[0].batch.withdraw == back.withdraw);
  CHECK(up.apart[0].batch.ids.empty());
  // The others' share of the round goes up alone.
  others_ask(relay_node, ids({7}), below_8({7}), 10ms);
  CHECK(relay_node.due(10ms).ids == std::vector<gathered_ids>{{{7}, all_but_5}});
}

TEST_CASE("nobody waits for a member that has joined, and what others wait for is held on") {
  auto relay_node = made();
  others_ask(relay_node, ids({7}), below_8({7}), 1us);
  others_ask(relay_node, in_full(full("a", 3)), full_below_8(full("a", 3)), 1us);
  relay_node.take(4, ids({9}), 1us);
  relay_node.take(4, in_full(full("b", 3)), 1us);
  CHECK(relay_node.due(1us).empty());
  requests joins;
  joins.join = true;
  relay_node.take(5, joins, 2us);
  const auto up = relay_node.due(2us);
  CHECK(up.ids == std::vector<gathered_ids>{{{7}, all_but_5}});
  REQUIRE(up.full.size() == 1);
  CHECK(up.full[0].asked_request == full("a", 3));
  CHECK(up.full[0].ranks == all_but_5);
  REQUIRE(up.apart.size() == 1);
  CHECK(up.apart[0].batch.join);
}

TEST_CASE("a rank above all that are below is none of them") {
  relay_rules rules;
  rules.ranks = {4, 5, 6, 7};
  rules.ranks.pop_back(); // what lies behind the last must not be looked at
  relay relay_node(std::move(rules));
  CHECK(relay_node.take(7, ids({1}), 1us));
  CHECK(relay_node.take(5, ids({1}), 1us).text == "");
  CHECK(relay_node.take(3, ids({1}), 1us));
}

TEST_CASE("of 8192 rows all are kept; of more, those in which nothing is held are forgotten") {
  const auto goes_up_without_4 = [](std::uint32_t earlier) {
    auto relay_node = made();
    std::vector<std::uint32_t> all(earlier);
    std::iota(all.begin(), all.end(), 1u);
    relay_node.take(4, ids(all), 1ms);
    relay_node.due(100ms); // they have waited long enough, and go up for rank 4
    relay_node.take(4, ids({20'000}), 100ms);
    relay_node.due(101ms);
    // What is held is not forgotten.
    relay_node.take(5, ids({20'000}), 101ms);
    relay_node.take(6, ids({20'000}), 101ms);
    CHECK(!relay_node.take(8, below_8({20'000}), 101ms));
    CHECK(relay_node.due(200ms).ids == std::vector<gathered_ids>{{{20'000}, {}}});
    relay_node.hear(moving({20'000}));
    for (const auto rank : {5, 6})
      relay_node.take(rank, ids({1}), 201ms);
    CHECK(!relay_node.take(8, below_8({1}), 201ms));
    return !relay_node.due(201ms).ids.empty();
  };
  CHECK(goes_up_without_4(8191));
  CHECK_FALSE(goes_up_without_4(8192));
}
