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

void all_ask(relay& one, std::uint32_t id, std::chrono::nanoseconds now) {
  for (auto rank : {4, 5, 6})
    one.take(rank, ids({id}), now);
  CHECK(!one.take(8, below_8({id}), now));
}

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

requests in_bucket(std::uint32_t which) {
  requests result;
  result.buckets = {which};
  return result;
}

gathered bucket_of_8(std::uint32_t which) {
  gathered result;
  result.buckets = {which};
  return result;
}

// Bucket 1 is ids 11 and 12, for 20 ms.
relay with_bucket() {
  auto one = made();
  schedule plan;
  plan.buckets = {{1, {11, 12}, 20ms}};
  one.hear(plan);
  return one;
}

} // namespace

TEST_CASE("a whole bucket goes up as one word, whether it came as ids or as a bucket") {
  auto one = with_bucket();
  for (int step = 0; step < 3; ++step) {
    const auto now = 30ms * (step + 1);
    one.take(4, ids({12, 11}), now);
    one.take(5, ids({11}), now);
    one.take(5, ids({12}), now + 1ms);
    CHECK(!one.take(6, in_bucket(1), now + 1ms));
    CHECK(one.due(now + 1ms).empty());
    CHECK(!one.take(8, step == 1 ? below_8({11, 12}) : bucket_of_8(1), now + 2ms));
    gathered whole;
    whole.buckets = {1};
    CHECK(one.due(now + 2ms) == whole);
  }
  CHECK(!one.wake_at());
}

TEST_CASE("what is ready of a bucket that does not become whole goes up after a while") {
  auto one = with_bucket();
  all_ask(one, 11, 1ms);
  CHECK(one.due(1ms).empty());
  CHECK(one.wake_at() == 21ms);
  CHECK(one.due(21ms).ids == std::vector<gathered_ids>{{{11}, {}}});
  // The other is not kept for it any more.
  all_ask(one, 12, 30ms);
  CHECK(one.due(30ms).ids == std::vector<gathered_ids>{{{12}, {}}});
  // Those below may not know yet.
  CHECK(!one.take(8, bucket_of_8(1), 40ms));
}

TEST_CASE("who is late is named also where the id is in a bucket") {
  auto one = with_bucket();
  one.take(5, ids({11}), 1ms);
  CHECK(one.wake_at() == 151ms);
  CHECK(one.due(151ms).ids == std::vector<gathered_ids>{{{11}, {{5, 1}}}});
}

TEST_CASE("what must not be overtaken goes up before what comes behind it") {
  requests back, join, left, end, change, fault;
  back.withdraw = {"something"};
  join.join = true;
  left.left = {{7, 2}};
  end.shutdown = true;
  change.change = set_change{set_change_kind::found, 0, {{1}}};
  fault.faults = {{3, "it broke"}};
  for (const auto& what : {back, join, left, end, change, fault}) {
    auto one = with_bucket();
    all_ask(one, 11, 1ms);
    one.take(5, what, 2ms);
    const auto up = one.due(2ms);
    CHECK(up.ids == std::vector<gathered_ids>{{{11}, {}}});
    CHECK(up.apart == std::vector<said_apart>{{5, what}});
  }
  auto one = with_bucket();
  all_ask(one, 11, 1ms);
  requests progress;
  progress.finished = 3;
  one.take(5, progress, 2ms);
  CHECK(one.due(2ms).ids.empty());
}

TEST_CASE("while somebody below has joined nothing is kept, and then it is again") {
  auto one = with_bucket();
  requests join;
  join.join = true;
  one.take(5, join, 1ms);
  CHECK(!one.due(1ms).empty());
  for (auto rank : {4, 6})
    one.take(rank, ids({11}), 2ms);
  CHECK(!one.take(8, bucket_of_8(1), 2ms));
  CHECK(one.due(2ms).ids == std::vector<gathered_ids>{{{11}, {{4, 1}, {6, 1}, {8, 2}}}});
  for (auto rank : {4, 6})
    one.take(rank, ids({12}), 3ms);
  schedule plan;
  plan.joined = 6;
  one.hear(plan);
  CHECK(!one.due(10ms).empty());
  for (auto rank : {4, 5, 6})
    one.take(rank, in_bucket(1), 20ms);
  CHECK(!one.take(8, bucket_of_8(1), 20ms));
  CHECK(one.due(20ms).buckets == std::vector<std::uint32_t>{1});
}

TEST_CASE("a bucket that is dissolved, or one of whose ids is forgotten, is kept no longer") {
  schedule dissolved, forgotten;
  dissolved.dissolved = {1};
  forgotten.forget = {12};
  for (const auto& plan : {dissolved, forgotten}) {
    auto one = with_bucket();
    all_ask(one, 11, 1ms);
    one.hear(plan);
    CHECK(one.due(1ms).ids == std::vector<gathered_ids>{{{11}, {}}});
    all_ask(one, 12, 20ms);
    CHECK(one.due(20ms).ids == std::vector<gathered_ids>{{{12}, {}}});
  }
}

TEST_CASE("who asks again for what waits in a bucket begins another round") {
  auto one = with_bucket();
  all_ask(one, 11, 1ms);
  one.take(4, ids({11}), 2ms);
  CHECK(one.due(2ms).ids == std::vector<gathered_ids>{{{11}, {}}});
}

TEST_CASE("a bucket that nobody planned breaks the protocol") {
  auto one = with_bucket();
  CHECK(one.take(4, in_bucket(2), 1ms));
  CHECK(one.take(8, bucket_of_8(2), 1ms));
  gathered apart;
  apart.apart = {{9, in_bucket(2)}};
  CHECK(one.take(8, apart, 1ms));
  CHECK(!one.wake_at());
}
