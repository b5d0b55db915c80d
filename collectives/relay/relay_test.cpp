#include <numeric>

#include "collectives/relay/relay_testing.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

TEST_CASE("an id that all members below have requested is sent once for all") {
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

TEST_CASE("the request of an id in the next step starts a new round") {
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

TEST_CASE("ids that become ready before a message is answered are sent together after the answer") {
  auto relay_node = made();
  all_ask(relay_node, 1, 1000us);
  all_ask(relay_node, 2, 1000us);
  CHECK(relay_node.wake_at() <= 1000us);
  CHECK(!relay_node.due(1000us).empty());
  all_ask(relay_node, 3, 1010us);
  all_ask(relay_node, 4, 1020us);
  relay_node.apply_schedule(moving({1, 9}));
  CHECK(relay_node.due(1020us).empty());
  relay_node.apply_schedule(moving({2}));
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
  // The first message has not been answered yet, which does not matter any more.
  relay_node.apply_schedule(moving({2}));
  all_ask(relay_node, 3, 3100us);
  CHECK(!relay_node.due(3100us).empty());
}

TEST_CASE("requests of a caller that waits for each tensor are sent without delay") {
  auto relay_node = made();
  for (std::uint32_t id = 1; id < 10; ++id) {
    const auto current_time = 10us * id;
    all_ask(relay_node, id, current_time);
    CHECK(!relay_node.due(current_time).empty());
    relay_node.apply_schedule(moving({id}));
  }
}

TEST_CASE("full requests are answered by their assignments or by their failures") {
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
  relay_node.apply_schedule(plan);
  CHECK(!relay_node.due(1ms).empty());
  CHECK_FALSE(ask("c", 1ms));
  plan.assignments.clear();
  plan.failures = {{"b", {}}};
  relay_node.apply_schedule(plan);
  CHECK(!relay_node.due(1ms).empty());
}

TEST_CASE("an incomplete id is sent after a delay, and the rest of it as soon as it is complete") {
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

TEST_CASE("equal full requests are sent as one, and different ones side by side") {
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

TEST_CASE("requests that differ only in the fast path are sent as one without the fast path") {
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

TEST_CASE("absent requests and others are sent side by side") {
  auto absent = full("a", 3);
  absent.absent = true;
  auto relay_node = made();
  relay_node.take(4, in_full(full("a", 3)), 1us);
  relay_node.take(5, in_full(absent), 1us);
  relay_node.take(6, in_full(full("a", 3)), 1us);
  gathered from_8;
  from_8.full = {{absent, {}}};
  CHECK(!relay_node.take(8, from_8, 1us));
  CHECK(relay_node.due(1us).full ==
        std::vector<gathered_request>{{full("a", 3), {{4, 1}, {6, 1}}}, {absent, {{5, 1}, {8, 2}}}});
}

TEST_CASE("requests from different devices are sent side by side") {
  auto on_second = full("a", 3);
  on_second.device = 1;
  auto relay_node = made();
  relay_node.take(4, in_full(full("a", 3)), 1us);
  relay_node.take(5, in_full(on_second), 1us);
  relay_node.take(6, in_full(full("a", 3)), 1us);
  gathered from_8;
  from_8.full = {{full("a", 3), {}}};
  CHECK(!relay_node.take(8, from_8, 1us));
  CHECK(relay_node.due(1us).full ==
        std::vector<gathered_request>{{full("a", 3), {{4, 1}, {6, 1}, {8, 2}}}, {on_second, {{5, 1}}}});
}

TEST_CASE("an incomplete full request is sent after a shorter delay") {
  auto relay_node = made();
  relay_node.take(5, in_full(full("a", 4)), 1ms);
  for (auto rank : {4, 6})
    relay_node.take(rank, ids({7}), 1ms);
  CHECK(relay_node.due(3ms).full == std::vector<gathered_request>{{full("a", 4), {{5, 1}}}});
  // The leader forgets the id, and has to know which ranks wait under it.
  schedule plan;
  plan.forget = {7};
  relay_node.apply_schedule(plan);
  CHECK(relay_node.due(5ms).ids == std::vector<gathered_ids>{{{7}, {{4, 1}, {6, 1}}}});
  CHECK(!relay_node.wake_at());
}

TEST_CASE("a member that has joined is not waited for until all have joined") {
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
  relay_node.apply_schedule(plan);
  for (auto rank : {4, 6})
    relay_node.take(rank, ids({8}), 2ms);
  CHECK(!relay_node.take(8, below_8({8}), 2ms));
  CHECK(relay_node.due(2ms).empty());
}

TEST_CASE("a member's withdrawal is sent after its requests") {
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
  // The member requests the id again before the others have been refused.
  relay_node.take(5, ids({7}), 3ms);
  for (auto rank : {4, 6})
    relay_node.take(rank, ids({7}), 3ms);
  CHECK(!relay_node.take(8, below_8({7}), 3ms));
  CHECK(relay_node.due(3ms).ids == std::vector<gathered_ids>{{{7}, {}}});
}

TEST_CASE("requests that come with a left fast-path round are sent with it as one message") {
  auto relay_node = made();
  auto left = in_full(full("a", 3));
  left.left = {{7, 2}};
  relay_node.take(5, left, 1ms);
  CHECK(relay_node.due(1ms).apart == std::vector<said_apart>{{5, left}});
  CHECK(!relay_node.wake_at());
}

TEST_CASE("a member's report that a process set failed is sent as its own message") {
  auto relay_node = made();
  requests fault;
  fault.faults = {{3, "it broke"}};
  relay_node.take(5, fault, 1ms);
  CHECK(relay_node.due(1ms).apart == std::vector<said_apart>{{5, fault}});
}

TEST_CASE("a relay accepts gathered requests only for ranks below their sender") {
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

/// The ranks of the relay, without rank 5.
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

TEST_CASE("a member that requests an id again begins another round, and the old round is sent") {
  auto relay_node = made();
  relay_node.take(5, ids({7}), 1us);
  relay_node.take(5, ids({7}), 2us);
  CHECK(relay_node.due(2us).ids == std::vector<gathered_ids>{{{7}, {{5, 1}}}});
  others_ask(relay_node, ids({7}), below_8({7}), 10ms);
  CHECK(relay_node.due(10ms).ids == std::vector<gathered_ids>{{{7}, {}}});
}

TEST_CASE("a member that requested in the previous round is waited for in the next one") {
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

TEST_CASE("a member that requests in full again begins another round, and the old round is sent") {
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

TEST_CASE("a withdrawal sends the member's earlier requests first, and no requests of others") {
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
  // The other members' part of the round is sent alone.
  others_ask(relay_node, ids({7}), below_8({7}), 10ms);
  CHECK(relay_node.due(10ms).ids == std::vector<gathered_ids>{{{7}, all_but_5}});
}

TEST_CASE("a member that has joined is not waited for, and incomplete requests of others are held") {
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

TEST_CASE("a rank above all ranks of the relay is refused") {
  relay_rules rules;
  rules.ranks = {4, 5, 6, 7};
  rules.ranks.pop_back(); // the memory after the last rank must not be read
  relay relay_node(std::move(rules));
  CHECK(relay_node.take(7, ids({1}), 1us));
  CHECK(relay_node.take(5, ids({1}), 1us).text == "");
  CHECK(relay_node.take(3, ids({1}), 1us));
}

TEST_CASE("up to 8192 rows are kept; beyond that, rows that hold no request are forgotten") {
  const auto goes_up_without_4 = [](std::uint32_t earlier) {
    auto relay_node = made();
    std::vector<std::uint32_t> all(earlier);
    std::iota(all.begin(), all.end(), 1u);
    relay_node.take(4, ids(all), 1ms);
    relay_node.due(100ms); // the requests have waited long enough, and are sent for rank 4
    relay_node.take(4, ids({20'000}), 100ms);
    relay_node.due(101ms);
    // A row that holds requests is not forgotten.
    relay_node.take(5, ids({20'000}), 101ms);
    relay_node.take(6, ids({20'000}), 101ms);
    CHECK(!relay_node.take(8, below_8({20'000}), 101ms));
    CHECK(relay_node.due(200ms).ids == std::vector<gathered_ids>{{{20'000}, {}}});
    relay_node.apply_schedule(moving({20'000}));
    for (const auto rank : {5, 6})
      relay_node.take(rank, ids({1}), 201ms);
    CHECK(!relay_node.take(8, below_8({1}), 201ms));
    return !relay_node.due(201ms).ids.empty();
  };
  CHECK(goes_up_without_4(8191));
  CHECK_FALSE(goes_up_without_4(8192));
}
