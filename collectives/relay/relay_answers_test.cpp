// What relays wait for, and what ends the wait.
#include <tuple>

#include "collectives/relay/relay_testing.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

TEST_CASE("an inline result and a retracted cell each answer a message") {
  auto relay_node = made();
  schedule answer;
  SECTION("a result") {
    answer.results = {{1, {}}};
  }
  SECTION("a retraction") {
    answer.retract = {{1, 1}};
  }
  all_ask(relay_node, 1, 1us);
  CHECK_FALSE(relay_node.due(1us).empty());
  all_ask(relay_node, 2, 2us);
  CHECK(relay_node.due(2us).empty());
  relay_node.apply_schedule(answer);
  CHECK_FALSE(relay_node.due(3us).empty());
}

TEST_CASE("full requests of different groups are sent side by side") {
  auto relay_node = made();
  auto request = full("a", 3);
  std::tie(request.group, request.group_size) = std::pair(1u, 2u);
  relay_node.take(4, in_full(request), 1us);
  relay_node.take(5, in_full(request), 1us);
  request.group = 2;
  relay_node.take(6, in_full(request), 1us);
  std::tie(request.group, request.group_size) = std::pair(1u, 3u);
  gathered other;
  other.full = {{request, {}}};
  CHECK_FALSE(relay_node.take(8, other, 1us));
  CHECK(relay_node.due(1us).full.size() == 3);
}

TEST_CASE("the relay wakes for the request that is due first, each with its own delay") {
  auto relay_node = made();
  relay_node.take(4, ids({1}), 1ms);
  CHECK(relay_node.wake_at() == 51ms);
  relay_node.take(4, in_full(full("a", 3)), 2ms);
  CHECK(relay_node.wake_at() == 4ms);
  CHECK(relay_node.due(4ms).full.size() == 1);
  relay_node.take(4, in_full(full("b", 3)), 50ms);
  CHECK(relay_node.wake_at() == 51ms);
  requests back;
  back.withdraw = {"c"};
  relay_node.take(5, back, 50ms);
  CHECK(relay_node.wake_at().has_value());
  CHECK(relay_node.wake_at() < 51ms);
}

TEST_CASE("members count as joined until the leader says that all have joined, even if rank 0 is last") {
  auto relay_node = made();
  requests join;
  join.join = true;
  relay_node.take(4, join, 1us);
  CHECK(relay_node.due(1us).apart.size() == 1);
  const auto others_ask = [&](std::uint32_t id, std::chrono::nanoseconds current_time) {
    relay_node.take(5, ids({id}), current_time);
    relay_node.take(6, ids({id}), current_time);
    CHECK_FALSE(relay_node.take(8, below_8({id}), current_time));
    return relay_node.due(current_time).ids.size();
  };
  relay_node.apply_schedule(schedule{});
  CHECK(others_ask(1, 10ms) == 1);
  schedule last;
  last.joined = 0;
  relay_node.apply_schedule(last);
  CHECK(others_ask(2, 20ms) == 0);
}

TEST_CASE("a member's progress is sent as its own message") {
  auto relay_node = made();
  auto message = ids({1});
  message.finished = 1;
  relay_node.take(4, message, 1us);
  const auto up = relay_node.due(1us);
  REQUIRE(up.apart.size() == 1);
  CHECK(up.apart[0].batch.finished == 1);
  CHECK(up.apart[0].batch.ids.empty());
}

TEST_CASE("a member that sends a request together with a left cell is not waited for") {
  auto relay_node = made();
  relay_node.take(5, ids({2}), 1us);
  relay_node.take(6, ids({2}), 1us);
  auto leaves = ids({2});
  leaves.left = {{9, 1}};
  relay_node.take(4, leaves, 1us);
  CHECK(relay_node.due(1us).apart.size() == 1);
  CHECK_FALSE(relay_node.take(8, below_8({2}), 2us));
  CHECK(relay_node.due(2us).ids == std::vector<gathered_ids>{{{2}, {{5, 2}, {8, 2}}}});
}

TEST_CASE("a withdrawal sends the member's own requests, and requests that wait for others stay") {
  auto relay_node = made();
  relay_node.take(5, ids({1}), 1us);
  relay_node.take(5, in_full(full("b", 3)), 1us);
  relay_node.take(4, ids({2}), 1us);
  relay_node.take(4, in_full(full("a", 3)), 1us);
  requests back;
  back.withdraw = {"a"};
  relay_node.take(4, back, 2us);
  const auto first = relay_node.due(2us);
  CHECK(first.ids == std::vector<gathered_ids>{{{2}, {{4, 1}}}});
  REQUIRE(first.full.size() == 1);
  CHECK(first.full[0].asked_request.name == "a");
  const auto later = relay_node.due(60ms);
  CHECK(later.ids == std::vector<gathered_ids>{{{1}, {{5, 1}}}});
  REQUIRE(later.full.size() == 1);
  CHECK(later.full[0].asked_request.name == "b");
}

TEST_CASE("a join sends the requests that it completes, and requests that wait for others stay") {
  auto relay_node = made();
  gathered below;
  below.ids = {{{1}, {}}};
  below.full = {{full("a", 3), {}}};
  CHECK_FALSE(relay_node.take(8, below, 1us));
  for (const auto rank : {5, 6}) {
    relay_node.take(rank, ids({1}), 1us);
    relay_node.take(rank, in_full(full("a", 3)), 1us);
  }
  relay_node.take(5, ids({2}), 1us);
  relay_node.take(5, in_full(full("b", 3)), 1us);
  requests join;
  join.join = true;
  relay_node.take(4, join, 2us);
  const auto first = relay_node.due(2us);
  CHECK(first.ids == std::vector<gathered_ids>{{{1}, {{5, 2}, {8, 2}}}});
  REQUIRE(first.full.size() == 1);
  CHECK(first.full[0].asked_request.name == "a");
  const auto later = relay_node.due(60ms);
  CHECK(later.ids == std::vector<gathered_ids>{{{2}, {{5, 1}}}});
  REQUIRE(later.full.size() == 1);
  CHECK(later.full[0].asked_request.name == "b");
}

TEST_CASE("separate messages of several members are sent for each, and refused for ranks not below") {
  auto relay_node = made();
  requests word;
  word.finished = 1;
  gathered below;
  below.apart = {{8, word}, {9, word}};
  CHECK_FALSE(relay_node.take(8, below, 1us));
  CHECK(relay_node.due(1us).apart.size() == 2);
  below.apart = {{99, word}};
  CHECK(relay_node.take(8, below, 2us));
  CHECK(relay_node.take(99, word, 2us));
}
