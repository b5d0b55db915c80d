// Relays: what they wait for, and what ends the wait.
#include <tuple>

#include "collectives/plan/relay_testing.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

TEST_CASE("the result of an inline tensor, and a cell that is left, answer a message") {
  auto one = made();
  schedule answer;
  SECTION("a result") {
    answer.results = {{1, {}}};
  }
  SECTION("a retraction") {
    answer.retract = {{1, 1}};
  }
  all_ask(one, 1, 1us);
  CHECK_FALSE(one.due(1us).empty());
  all_ask(one, 2, 2us);
  CHECK(one.due(2us).empty());
  one.hear(answer);
  CHECK_FALSE(one.due(3us).empty());
}

TEST_CASE("full requests of different groups go up side by side") {
  auto one = made();
  auto request = full("a", 3);
  std::tie(request.group, request.group_size) = std::pair(1u, 2u);
  one.take(4, in_full(request), 1us);
  one.take(5, in_full(request), 1us);
  request.group = 2;
  one.take(6, in_full(request), 1us);
  std::tie(request.group, request.group_size) = std::pair(1u, 3u);
  gathered other;
  other.full = {{request, {}}};
  CHECK_FALSE(one.take(8, other, 1us));
  CHECK(one.due(1us).full.size() == 3);
}

TEST_CASE("the relay wakes for what has waited longest, each for its own while") {
  auto one = made();
  one.take(4, ids({1}), 1ms);
  CHECK(one.wake_at() == 51ms);
  one.take(4, in_full(full("a", 3)), 2ms);
  CHECK(one.wake_at() == 4ms);
  CHECK(one.due(4ms).full.size() == 1);
  one.take(4, in_full(full("b", 3)), 50ms);
  CHECK(one.wake_at() == 51ms);
  requests back;
  back.withdraw = {"c"};
  one.take(5, back, 50ms);
  CHECK(one.wake_at().has_value());
  CHECK(one.wake_at() < 51ms);
}

TEST_CASE("members join until the last of all has, also where that is rank 0") {
  auto one = made();
  requests join;
  join.join = true;
  one.take(4, join, 1us);
  CHECK(one.due(1us).apart.size() == 1);
  const auto others_ask = [&](std::uint32_t id, std::chrono::nanoseconds now) {
    one.take(5, ids({id}), now);
    one.take(6, ids({id}), now);
    CHECK_FALSE(one.take(8, below_8({id}), now));
    return one.due(now).ids.size();
  };
  one.hear(schedule{});
  CHECK(others_ask(1, 10ms) == 1);
  schedule last;
  last.joined = 0;
  one.hear(last);
  CHECK(others_ask(2, 20ms) == 0);
}

TEST_CASE("how far a member has come goes up as its own word") {
  auto one = made();
  auto message = ids({1});
  message.finished = 1;
  one.take(4, message, 1us);
  const auto up = one.due(1us);
  REQUIRE(up.apart.size() == 1);
  CHECK(up.apart[0].what.finished == 1);
  CHECK(up.apart[0].what.ids.empty());
}

TEST_CASE("who asked together with a cell that it left is not waited for") {
  auto one = made();
  one.take(5, ids({2}), 1us);
  one.take(6, ids({2}), 1us);
  auto leaves = ids({2});
  leaves.left = {{9, 1}};
  one.take(4, leaves, 1us);
  CHECK(one.due(1us).apart.size() == 1);
  CHECK_FALSE(one.take(8, below_8({2}), 2us));
  CHECK(one.due(2us).ids == std::vector<gathered_ids>{{{2}, {{5, 2}, {8, 2}}}});
}

TEST_CASE("what others wait for stays when a member takes something back, and goes up once") {
  auto one = made();
  one.take(5, ids({1}), 1us);
  one.take(5, in_full(full("b", 3)), 1us);
  one.take(4, ids({2}), 1us);
  one.take(4, in_full(full("a", 3)), 1us);
  requests back;
  back.withdraw = {"a"};
  one.take(4, back, 2us);
  const auto first = one.due(2us);
  CHECK(first.ids == std::vector<gathered_ids>{{{2}, {{4, 1}}}});
  REQUIRE(first.full.size() == 1);
  CHECK(first.full[0].what.name == "a");
  const auto later = one.due(60ms);
  CHECK(later.ids == std::vector<gathered_ids>{{{1}, {{5, 1}}}});
  REQUIRE(later.full.size() == 1);
  CHECK(later.full[0].what.name == "b");
}

TEST_CASE("what still waits for others stays when a member joins, and goes up once") {
  auto one = made();
  gathered below;
  below.ids = {{{1}, {}}};
  below.full = {{full("a", 3), {}}};
  CHECK_FALSE(one.take(8, below, 1us));
  for (const auto rank : {5, 6}) {
    one.take(rank, ids({1}), 1us);
    one.take(rank, in_full(full("a", 3)), 1us);
  }
  one.take(5, ids({2}), 1us);
  one.take(5, in_full(full("b", 3)), 1us);
  requests join;
  join.join = true;
  one.take(4, join, 2us);
  const auto first = one.due(2us);
  CHECK(first.ids == std::vector<gathered_ids>{{{1}, {{5, 2}, {8, 2}}}});
  REQUIRE(first.full.size() == 1);
  CHECK(first.full[0].what.name == "a");
  const auto later = one.due(60ms);
  CHECK(later.ids == std::vector<gathered_ids>{{{2}, {{5, 1}}}});
  REQUIRE(later.full.size() == 1);
  CHECK(later.full[0].what.name == "b");
}

TEST_CASE("what several members say apart goes up of each, and of nobody who is not below") {
  auto one = made();
  requests word;
  word.finished = 1;
  gathered below;
  below.apart = {{8, word}, {9, word}};
  CHECK_FALSE(one.take(8, below, 1us));
  CHECK(one.due(1us).apart.size() == 2);
  below.apart = {{99, word}};
  CHECK(one.take(8, below, 2us));
  CHECK(one.take(99, word, 2us));
}
