#include "collectives/plan/relay_testing.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

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
  end.leaves = departure{};
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

TEST_CASE("a bucket is named in no message that goes up for something else") {
  auto one = with_bucket();
  auto message = in_bucket(1);
  message.withdraw = {"a"};
  CHECK_FALSE(one.take(4, message, 1ms));
  const auto up = one.due(1ms);
  REQUIRE(up.apart.size() == 1);
  CHECK(up.apart[0].what.buckets.empty());
}

TEST_CASE("an id for which some have asked apart takes its bucket off, and goes up behind it") {
  auto one = with_bucket();
  one.take(5, ids({11}), 1ms);
  auto leaves = ids({11});
  leaves.left = {{9, 1}};
  one.take(4, leaves, 1ms);
  CHECK(one.due(1ms).apart.size() == 1);
  all_ask(one, 12, 2ms);
  CHECK(one.due(2ms).empty());
  one.take(6, ids({11}), 3ms);
  CHECK_FALSE(one.take(8, below_8({11}), 3ms));
  CHECK(one.due(3ms).ids == std::vector<gathered_ids>{{{12}, {}}, {{11}, {{5, 2}, {8, 2}}}});
}
