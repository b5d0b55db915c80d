#include <numeric>

#include "collectives/plan/relay_testing.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

TEST_CASE("what all below have asked for goes up once, for all") {
  auto one = made();
  one.take(4, ids({1, 2, 3}), 1us);
  one.take(5, ids({2, 1}), 1us);
  CHECK(!one.take(8, below_8({1, 2, 3}), 1us));
  CHECK(one.due(1us).empty());
  one.take(6, ids({1, 2}), 2us);
  const auto up = one.due(2us);
  REQUIRE(up.ids.size() == 1);
  CHECK(up.ids[0].ids == std::vector<std::uint32_t>{1, 2});
  CHECK(up.ids[0].ranks.empty());
  CHECK(up.full.empty());
  CHECK(up.apart.empty());
}

TEST_CASE("the next step's request begins anew") {
  auto one = made();
  for (int step = 0; step < 3; ++step) {
    const auto now = 2ms * (step + 1);
    for (auto rank : {4, 5, 6})
      one.take(rank, ids({7}), now);
    CHECK(one.due(now).empty());
    CHECK(!one.take(8, below_8({7}), now));
    CHECK(one.due(now).ids == std::vector<gathered_ids>{{{7}, {}}});
  }
  CHECK(!one.wake_at());
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
  auto one = made();
  all_ask(one, 1, 1000us);
  all_ask(one, 2, 1000us);
  CHECK(one.wake_at() <= 1000us);
  CHECK(!one.due(1000us).empty());
  all_ask(one, 3, 1010us);
  all_ask(one, 4, 1020us);
  one.hear(moving({1, 9}));
  CHECK(one.due(1020us).empty());
  one.hear(moving({2}));
  CHECK(one.wake_at() <= 1020us);
  CHECK(one.due(1030us).ids == std::vector<gathered_ids>{{{3, 4}, {}}});
}

TEST_CASE("an answer is not waited for beyond the bound") {
  auto one = made();
  all_ask(one, 1, 1ms);
  CHECK(!one.due(1ms).empty());
  all_ask(one, 2, 2ms);
  CHECK(one.wake_at() == 3ms);
  CHECK(one.due(2999us).empty());
  CHECK(one.due(3ms).ids == std::vector<gathered_ids>{{{2}, {}}});
  // The first has not been answered yet; that does not matter any more.
  one.hear(moving({2}));
  all_ask(one, 3, 3100us);
  CHECK(!one.due(3100us).empty());
}

TEST_CASE("a caller that waits for each tensor waits for nothing else") {
  auto one = made();
  for (std::uint32_t id = 1; id < 10; ++id) {
    const auto now = 10us * id;
    all_ask(one, id, now);
    CHECK(!one.due(now).empty());
    one.hear(moving({id}));
  }
}

TEST_CASE("full requests are answered by the ids that they get, or by their failure") {
  auto one = made();
  const auto ask = [&](const std::string& name, std::chrono::nanoseconds now) {
    for (auto rank : {4, 5, 6})
      one.take(rank, in_full(full(name, 3)), now);
    gathered from_8;
    from_8.full = {{full(name, 3), {}}};
    CHECK(!one.take(8, from_8, now));
    return !one.due(now).empty();
  };
  CHECK(ask("a", 1ms));
  CHECK_FALSE(ask("b", 1ms));
  schedule plan;
  plan.assignments = {{1, "a", -1, 0, {}}};
  one.hear(plan);
  CHECK(!one.due(1ms).empty());
  CHECK_FALSE(ask("c", 1ms));
  plan.assignments.clear();
  plan.failures = {{"b", {}}};
  one.hear(plan);
  CHECK(!one.due(1ms).empty());
}

TEST_CASE("what waits for others goes up after a while, and the rest of it as soon as it has come") {
  auto one = made();
  one.take(5, ids({7}), 1ms);
  one.take(6, ids({7}), 2ms);
  CHECK(!one.take(8, below_8({7}, {{9, 1}}), 2ms));
  CHECK(one.wake_at() == 51ms);
  CHECK(one.due(50ms).empty());
  CHECK(one.due(51ms).ids == std::vector<gathered_ids>{{{7}, {{5, 2}, {9, 1}}}});
  one.take(4, ids({7}), 60ms);
  CHECK(one.due(60ms).empty());
  CHECK(!one.take(8, below_8({7}, {{8, 1}}), 61ms));
  CHECK(one.due(61ms).ids == std::vector<gathered_ids>{{{7}, {{4, 1}, {8, 1}}}});
  CHECK(!one.wake_at());
}

TEST_CASE("equal full requests are one, different ones go up side by side") {
  auto one = made();
  for (auto rank : {4, 6})
    one.take(rank, in_full(full("a", 3)), 1ms);
  one.take(5, in_full(full("a", 4)), 1ms);
  gathered from_8;
  from_8.full = {{full("a", 3), {}}};
  CHECK(!one.take(8, from_8, 1ms));
  const auto up = one.due(1ms);
  CHECK(up.full ==
        std::vector<gathered_request>{{full("a", 3), {{4, 1}, {6, 1}, {8, 2}}}, {full("a", 4), {{5, 1}}}});
  CHECK(!one.wake_at());
}

TEST_CASE("requests that differ only in whether they want a seat are one, that wants none") {
  auto seatless = full("a", 3);
  seatless.seatless = true;
  for (const bool first : {true, false}) {
    auto one = made();
    one.take(4, in_full(first ? seatless : full("a", 3)), 1us);
    one.take(5, in_full(first ? full("a", 3) : seatless), 1us);
    one.take(6, in_full(full("a", 3)), 1us);
    gathered from_8;
    from_8.full = {{full("a", 3), {}}};
    CHECK(!one.take(8, from_8, 1us));
    CHECK(one.due(1us).full == std::vector<gathered_request>{{seatless, {}}});
  }
}

TEST_CASE("a full request that stays alone goes up after a shorter while") {
  auto one = made();
  one.take(5, in_full(full("a", 4)), 1ms);
  for (auto rank : {4, 6})
    one.take(rank, ids({7}), 1ms);
  CHECK(one.due(3ms).full == std::vector<gathered_request>{{full("a", 4), {{5, 1}}}});
  // The leader forgets the id, and has to know who waits under it.
  schedule plan;
  plan.forget = {7};
  one.hear(plan);
  CHECK(one.due(5ms).ids == std::vector<gathered_ids>{{{7}, {{4, 1}, {6, 1}}}});
  CHECK(!one.wake_at());
}

TEST_CASE("who has joined is not waited for, until all have") {
  auto one = made();
  requests join;
  join.join = true;
  for (auto rank : {4, 6})
    one.take(rank, ids({7}), 1ms);
  CHECK(!one.take(8, below_8({7}), 1ms));
  one.take(5, join, 1ms);
  const auto up = one.due(1ms);
  CHECK(up.ids == std::vector<gathered_ids>{{{7}, {{4, 1}, {6, 1}, {8, 2}}}});
  CHECK(up.apart == std::vector<said_apart>{{5, join}});
  schedule plan;
  plan.joined = 6;
  one.hear(plan);
  for (auto rank : {4, 6})
    one.take(rank, ids({8}), 2ms);
  CHECK(!one.take(8, below_8({8}), 2ms));
  CHECK(one.due(2ms).empty());
}

TEST_CASE("what a member takes back goes up behind what it had asked for") {
  auto one = made();
  one.take(5, ids({7}), 1ms);
  one.take(6, in_full(full("a", 3)), 1ms);
  auto back = in_full(full("b", 3));
  back.withdraw = {"seven", "b"};
  one.take(5, back, 1ms);
  const auto up = one.due(1ms);
  CHECK(up.ids == std::vector<gathered_ids>{{{7}, {{5, 1}}}});
  CHECK(up.full == std::vector<gathered_request>{{full("b", 3), {{5, 1}}}});
  back.full.clear();
  CHECK(up.apart == std::vector<said_apart>{{5, back}});
  // It asks again, before the others have been turned away.
  one.take(5, ids({7}), 3ms);
  for (auto rank : {4, 6})
    one.take(rank, ids({7}), 3ms);
  CHECK(!one.take(8, below_8({7}), 3ms));
  CHECK(one.due(3ms).ids == std::vector<gathered_ids>{{{7}, {}}});
}

TEST_CASE("what comes with a round of the board that is left stays together") {
  auto one = made();
  auto left = in_full(full("a", 3));
  left.left = {{7, 2}};
  one.take(5, left, 1ms);
  CHECK(one.due(1ms).apart == std::vector<said_apart>{{5, left}});
  CHECK(!one.wake_at());
}

TEST_CASE("a member's word that a process set failed goes up as its own") {
  auto one = made();
  requests fault;
  fault.faults = {{3, "it broke"}};
  one.take(5, fault, 1ms);
  CHECK(one.due(1ms).apart == std::vector<said_apart>{{5, fault}});
}

TEST_CASE("a relay speaks for those below it alone") {
  auto one = made();
  CHECK(one.take(8, below_8({7}, {{6, 1}}), 1ms));
  CHECK(one.take(8, below_8({7}, {{8, 3}}), 1ms));
  CHECK(one.take(9, below_8({7}), 1ms));
  gathered apart;
  apart.apart = {{4, ids({7})}};
  CHECK(one.take(8, apart, 1ms));
  CHECK(one.take(7, ids({7}), 1ms));
  CHECK(!one.wake_at());
}

namespace {

/// Of these, without 5.
const rank_runs all_but_5{{4, 1}, {6, 1}, {8, 2}};

void others_ask(relay& one, const requests& what, const gathered& from_8, std::chrono::nanoseconds now) {
  for (auto rank : {4, 6})
    one.take(rank, what, now);
  CHECK(!one.take(8, from_8, now));
}

gathered full_below_8(const request& what) {
  gathered result;
  result.full = {{what, {}}};
  return result;
}

} // namespace

TEST_CASE("a member that asks for an id again begins another round, and the one before goes up") {
  auto one = made();
  one.take(5, ids({7}), 1us);
  one.take(5, ids({7}), 2us);
  CHECK(one.due(2us).ids == std::vector<gathered_ids>{{{7}, {{5, 1}}}});
  others_ask(one, ids({7}), below_8({7}), 10ms);
  CHECK(one.due(10ms).ids == std::vector<gathered_ids>{{{7}, {}}});
}

TEST_CASE("who has asked in the round before is waited for in the next") {
  auto one = made();
  one.take(4, ids({7}), 0us);
  one.take(5, ids({7}), 0us);
  CHECK(one.due(50ms).ids == std::vector<gathered_ids>{{{7}, {{4, 2}}}});
  one.take(5, ids({7}), 60ms);
  one.take(6, ids({7}), 60ms);
  CHECK(!one.take(8, below_8({7}), 60ms));
  CHECK(one.due(70ms).empty());
  one.take(4, ids({7}), 80ms);
  CHECK(one.due(80ms).ids == std::vector<gathered_ids>{{{7}, {}}});
}

TEST_CASE("a member that asks in full again begins another round, and the one before goes up") {
  auto one = made();
  one.take(5, in_full(full("a", 3)), 1us);
  one.take(5, in_full(full("a", 4)), 2us);
  auto up = one.due(2us).full;
  REQUIRE(up.size() == 1);
  CHECK(up[0].what == full("a", 3));
  CHECK(up[0].ranks == rank_runs{{5, 1}});
  others_ask(one, in_full(full("a", 4)), full_below_8(full("a", 4)), 10ms);
  up = one.due(10ms).full;
  REQUIRE(up.size() == 1);
  CHECK(up[0].what == full("a", 4));
  CHECK(up[0].ranks.empty());
}

TEST_CASE("what a member takes back goes up before that, and nothing of others does") {
  auto one = made();
  one.take(5, in_full(full("a", 3)), 1us);
  one.take(6, in_full(full("b", 3)), 1us);
  auto back = ids({7});
  back.withdraw = {"a"};
  one.take(5, back, 2us);
  const auto up = one.due(2us);
  CHECK(up.ids == std::vector<gathered_ids>{{{7}, {{5, 1}}}});
  REQUIRE(up.full.size() == 1);
  CHECK(up.full[0].what == full("a", 3));
  REQUIRE(up.apart.size() == 1);
  CHECK(up.apart[0].rank == 5);
  CHECK(up.apart[0].what.withdraw == back.withdraw);
  CHECK(up.apart[0].what.ids.empty());
  // The others' share of the round goes up alone.
  others_ask(one, ids({7}), below_8({7}), 10ms);
  CHECK(one.due(10ms).ids == std::vector<gathered_ids>{{{7}, all_but_5}});
}

TEST_CASE("nobody waits for a member that has joined, and what others wait for is held on") {
  auto one = made();
  others_ask(one, ids({7}), below_8({7}), 1us);
  others_ask(one, in_full(full("a", 3)), full_below_8(full("a", 3)), 1us);
  one.take(4, ids({9}), 1us);
  one.take(4, in_full(full("b", 3)), 1us);
  CHECK(one.due(1us).empty());
  requests joins;
  joins.join = true;
  one.take(5, joins, 2us);
  const auto up = one.due(2us);
  CHECK(up.ids == std::vector<gathered_ids>{{{7}, all_but_5}});
  REQUIRE(up.full.size() == 1);
  CHECK(up.full[0].what == full("a", 3));
  CHECK(up.full[0].ranks == all_but_5);
  REQUIRE(up.apart.size() == 1);
  CHECK(up.apart[0].what.join);
}

TEST_CASE("a rank above all that are below is none of them") {
  relay_rules rules;
  rules.ranks = {4, 5, 6, 7};
  rules.ranks.pop_back(); // what lies behind the last must not be looked at
  relay one(std::move(rules));
  CHECK(one.take(7, ids({1}), 1us));
  CHECK(one.take(5, ids({1}), 1us).text == "");
  CHECK(one.take(3, ids({1}), 1us));
}

TEST_CASE("of 8192 rows all are kept; of more, those in which nothing is held are forgotten") {
  const auto goes_up_without_4 = [](std::uint32_t earlier) {
    auto one = made();
    std::vector<std::uint32_t> all(earlier);
    std::iota(all.begin(), all.end(), 1u);
    one.take(4, ids(all), 1ms);
    one.due(100ms); // they have waited long enough, and go up for rank 4
    one.take(4, ids({20'000}), 100ms);
    one.due(101ms);
    // What is held is not forgotten.
    one.take(5, ids({20'000}), 101ms);
    one.take(6, ids({20'000}), 101ms);
    CHECK(!one.take(8, below_8({20'000}), 101ms));
    CHECK(one.due(200ms).ids == std::vector<gathered_ids>{{{20'000}, {}}});
    one.hear(moving({20'000}));
    for (const auto rank : {5, 6})
      one.take(rank, ids({1}), 201ms);
    CHECK(!one.take(8, below_8({1}), 201ms));
    return !one.due(201ms).ids.empty();
  };
  CHECK(goes_up_without_4(8191));
  CHECK_FALSE(goes_up_without_4(8192));
}
