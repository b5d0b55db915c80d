#include "collectives/plan/relay.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

// A relay of rank 4: ranks 4, 5 and 6 on its host, and the relay of rank 8 with 8 and 9 below it.
relay made() {
  relay_rules rules;
  rules.ranks = {4, 5, 6, 8, 9};
  rules.branches = {{8, {8, 9}}};
  return relay(rules);
}

request full(const std::string& name, std::int64_t extent) {
  request result;
  result.name = name;
  result.signature.shape = {extent};
  return result;
}

requests ids(std::vector<std::uint32_t> which) {
  requests result;
  result.ids = std::move(which);
  return result;
}

requests in_full(const request& what) {
  requests result;
  result.full = {what};
  return result;
}

gathered below_8(std::vector<std::uint32_t> which, rank_runs ranks = {}) {
  gathered result;
  result.ids = {{std::move(which), std::move(ranks)}};
  return result;
}

} // namespace

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
    const auto now = 1ms * (step + 1);
    for (auto rank : {4, 5, 6})
      one.take(rank, ids({7}), now);
    CHECK(one.due(now).empty());
    CHECK(!one.take(8, below_8({7}), now));
    CHECK(one.due(now).ids == std::vector<gathered_ids>{{{7}, {}}});
  }
  CHECK(!one.wake_at());
}

TEST_CASE("what becomes ready within the pause goes up together, at its end") {
  auto one = made();
  const auto all_ask = [&](std::uint32_t id, std::chrono::nanoseconds now) {
    for (auto rank : {4, 5, 6})
      one.take(rank, ids({id}), now);
    CHECK(!one.take(8, below_8({id}), now));
  };
  all_ask(1, 1000us);
  CHECK(one.wake_at() <= 1000us);
  CHECK(!one.due(1000us).empty());
  all_ask(2, 1010us);
  all_ask(3, 1020us);
  CHECK(one.due(1020us).empty());
  CHECK(one.wake_at() == 1200us);
  CHECK(one.due(1200us).ids == std::vector<gathered_ids>{{{2, 3}, {}}});
}

TEST_CASE("a stream of requests lengthens the pause, and a caller that waits for each has the short one") {
  auto one = made();
  std::uint32_t id = 0;
  std::chrono::nanoseconds now = 1ms;
  const auto ask = [&] {
    ++id;
    for (auto rank : {4, 5, 6})
      one.take(rank, ids({id}), now);
    CHECK(!one.take(8, below_8({id}), now));
    return !one.due(now).empty();
  };
  int messages = 0;
  for (int i = 0; i < 500; ++i, now += 50us)
    messages += ask();
  CHECK(messages > 5);
  CHECK(messages < 25); // in 25 ms; one every 200 us would be 125
  now += 10ms;
  CHECK(ask());
  for (int i = 0; i < 10; ++i) {
    now += 50us; // the next is asked for as soon as the last was answered
    CHECK_FALSE(ask());
    REQUIRE(one.wake_at());
    CHECK(*one.wake_at() - now <= 150us);
    now = *one.wake_at();
    CHECK(!one.due(now).empty());
  }
}

TEST_CASE("what waits for others goes up after a while, and the rest of it as soon as it has come") {
  auto one = made();
  one.take(5, ids({7}), 1ms);
  one.take(6, ids({7}), 2ms);
  CHECK(!one.take(8, below_8({7}, {{9, 1}}), 2ms));
  CHECK(one.wake_at() == 11ms);
  CHECK(one.due(10ms).empty());
  CHECK(one.due(11ms).ids == std::vector<gathered_ids>{{{7}, {{5, 2}, {9, 1}}}});
  one.take(4, ids({7}), 20ms);
  CHECK(one.due(20ms).empty());
  CHECK(!one.take(8, below_8({7}, {{8, 1}}), 21ms));
  CHECK(one.due(21ms).ids == std::vector<gathered_ids>{{{7}, {{4, 1}, {8, 1}}}});
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
  CHECK(one.due(4ms).ids == std::vector<gathered_ids>{{{7}, {{4, 1}, {6, 1}}}});
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
  one.take(5, ids({7}), 2ms);
  for (auto rank : {4, 6})
    one.take(rank, ids({7}), 2ms);
  CHECK(!one.take(8, below_8({7}), 2ms));
  CHECK(one.due(2ms).ids == std::vector<gathered_ids>{{{7}, {}}});
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
