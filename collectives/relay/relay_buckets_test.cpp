#include "collectives/relay/relay_testing.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

namespace {

requests in_bucket(std::uint32_t bucket) {
  requests result;
  result.buckets = {bucket};
  return result;
}

gathered bucket_of_8(std::uint32_t bucket) {
  gathered result;
  result.buckets = {bucket};
  return result;
}

// A relay with bucket 1 of ids 11 and 12, which waits for 20 ms.
relay with_bucket() {
  auto relay_node = made();
  schedule plan;
  plan.buckets = {{1, {11, 12}, 20ms}};
  relay_node.apply_schedule(plan);
  return relay_node;
}

} // namespace

TEST_CASE("a complete bucket is sent by its number, whether members requested ids or the bucket") {
  auto relay_node = with_bucket();
  for (int step = 0; step < 3; ++step) {
    const auto current_time = 30ms * (step + 1);
    relay_node.take(4, ids({12, 11}), current_time);
    relay_node.take(5, ids({11}), current_time);
    relay_node.take(5, ids({12}), current_time + 1ms);
    CHECK(!relay_node.take(6, in_bucket(1), current_time + 1ms));
    CHECK(relay_node.due(current_time + 1ms).empty());
    CHECK(!relay_node.take(8, step == 1 ? below_8({11, 12}) : bucket_of_8(1), current_time + 2ms));
    gathered whole;
    whole.buckets = {1};
    CHECK(relay_node.due(current_time + 2ms) == whole);
  }
  CHECK(!relay_node.wake_at());
}

TEST_CASE("the ready ids of an incomplete bucket are sent after its patience") {
  auto relay_node = with_bucket();
  all_ask(relay_node, 11, 1ms);
  CHECK(relay_node.due(1ms).empty());
  CHECK(relay_node.wake_at() == 21ms);
  CHECK(relay_node.due(21ms).ids == std::vector<gathered_ids>{{{11}, {}}});
  // Its other id does not wait for the bucket any more.
  all_ask(relay_node, 12, 30ms);
  CHECK(relay_node.due(30ms).ids == std::vector<gathered_ids>{{{12}, {}}});
  // The relays below may not know yet that the bucket is dissolved.
  CHECK(!relay_node.take(8, bucket_of_8(1), 40ms));
}

TEST_CASE("an incomplete id in a bucket is sent with the ranks that requested it") {
  auto relay_node = with_bucket();
  relay_node.take(5, ids({11}), 1ms);
  CHECK(relay_node.wake_at() == 151ms);
  CHECK(relay_node.due(151ms).ids == std::vector<gathered_ids>{{{11}, {{5, 1}}}});
}

TEST_CASE("ids that wait in a bucket are sent before a message that must not overtake them") {
  requests back, join, left, end, change, fault;
  back.withdraw = {"something"};
  join.join = true;
  left.left = {{7, 2}};
  end.leaves = departure{};
  change.change = set_change{set_change_kind::create, 0, {{1}}};
  fault.faults = {{3, "it broke"}};
  for (const auto& batch : {back, join, left, end, change, fault}) {
    auto relay_node = with_bucket();
    all_ask(relay_node, 11, 1ms);
    relay_node.take(5, batch, 2ms);
    const auto up = relay_node.due(2ms);
    CHECK(up.ids == std::vector<gathered_ids>{{{11}, {}}});
    CHECK(up.apart == std::vector<said_apart>{{5, batch}});
  }
  auto relay_node = with_bucket();
  all_ask(relay_node, 11, 1ms);
  requests progress;
  progress.finished = 3;
  relay_node.take(5, progress, 2ms);
  CHECK(relay_node.due(2ms).ids.empty());
}

TEST_CASE("buckets are not used while a member below has joined, and are used again afterwards") {
  auto relay_node = with_bucket();
  requests join;
  join.join = true;
  relay_node.take(5, join, 1ms);
  CHECK(!relay_node.due(1ms).empty());
  for (auto rank : {4, 6})
    relay_node.take(rank, ids({11}), 2ms);
  CHECK(!relay_node.take(8, bucket_of_8(1), 2ms));
  CHECK(relay_node.due(2ms).ids == std::vector<gathered_ids>{{{11}, {{4, 1}, {6, 1}, {8, 2}}}});
  for (auto rank : {4, 6})
    relay_node.take(rank, ids({12}), 3ms);
  schedule plan;
  plan.joined = 6;
  relay_node.apply_schedule(plan);
  CHECK(!relay_node.due(10ms).empty());
  for (auto rank : {4, 5, 6})
    relay_node.take(rank, in_bucket(1), 20ms);
  CHECK(!relay_node.take(8, bucket_of_8(1), 20ms));
  CHECK(relay_node.due(20ms).buckets == std::vector<std::uint32_t>{1});
}

TEST_CASE("a bucket that is dissolved, or one of whose ids is forgotten, is not used any more") {
  schedule dissolved, forgotten;
  dissolved.dissolved = {1};
  forgotten.forget = {12};
  for (const auto& plan : {dissolved, forgotten}) {
    auto relay_node = with_bucket();
    all_ask(relay_node, 11, 1ms);
    relay_node.apply_schedule(plan);
    CHECK(relay_node.due(1ms).ids == std::vector<gathered_ids>{{{11}, {}}});
    all_ask(relay_node, 12, 20ms);
    CHECK(relay_node.due(20ms).ids == std::vector<gathered_ids>{{{12}, {}}});
  }
}

TEST_CASE("a member that requests an id again while it waits in a bucket begins another round") {
  auto relay_node = with_bucket();
  all_ask(relay_node, 11, 1ms);
  relay_node.take(4, ids({11}), 2ms);
  CHECK(relay_node.due(2ms).ids == std::vector<gathered_ids>{{{11}, {}}});
}

TEST_CASE("requesting a bucket that was not planned breaks the protocol") {
  auto relay_node = with_bucket();
  CHECK(relay_node.take(4, in_bucket(2), 1ms));
  CHECK(relay_node.take(8, bucket_of_8(2), 1ms));
  gathered apart;
  apart.apart = {{9, in_bucket(2)}};
  CHECK(relay_node.take(8, apart, 1ms));
  CHECK(!relay_node.wake_at());
}

TEST_CASE("a separate message of a member does not name its bucket") {
  auto relay_node = with_bucket();
  auto message = in_bucket(1);
  message.withdraw = {"a"};
  CHECK_FALSE(relay_node.take(4, message, 1ms));
  const auto up = relay_node.due(1ms);
  REQUIRE(up.apart.size() == 1);
  CHECK(up.apart[0].batch.buckets.empty());
}

TEST_CASE("an id with a separate request releases its bucket and is sent after it") {
  auto relay_node = with_bucket();
  relay_node.take(5, ids({11}), 1ms);
  auto leaves = ids({11});
  leaves.left = {{9, 1}};
  relay_node.take(4, leaves, 1ms);
  CHECK(relay_node.due(1ms).apart.size() == 1);
  all_ask(relay_node, 12, 2ms);
  CHECK(relay_node.due(2ms).empty());
  relay_node.take(6, ids({11}), 3ms);
  CHECK_FALSE(relay_node.take(8, below_8({11}), 3ms));
  CHECK(relay_node.due(3ms).ids == std::vector<gathered_ids>{{{12}, {}}, {{11}, {{5, 2}, {8, 2}}}});
}
