// The leader's side of buckets: its decisions are those that it would make without buckets.
#include "collectives/negotiation/negotiation_testing.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

namespace {

// A leader that has assigned ids 1 to 4 and is about to plan buckets of them.
negotiation taught(std::size_t buckets = 3) {
  auto leader = made({}, buckets);
  std::vector<request> request_list;
  for (const auto* name : {"a", "b", "c", "d"})
    request_list.push_back(ask(name, 3));
  requests own;
  own.full = request_list;
  gathered theirs;
  for (const auto& request : request_list)
    theirs.full.push_back({request, {}});
  leader.receive(0, own, 1ms);
  leader.receive(1, own, 1ms);
  leader.receive(2, theirs, 1ms);
  CHECK(leader.receive(4, theirs, 1ms).ready.size() == 4);
  return leader;
}

requests some_requests(std::vector<std::uint32_t> ids) {
  requests result;
  result.ids = std::move(ids);
  return result;
}

gathered every_member(std::vector<std::uint32_t> ids) {
  gathered result;
  result.ids = {{std::move(ids), {}}};
  return result;
}

gathered whole(std::uint32_t bucket) {
  gathered result;
  result.buckets = {bucket};
  return result;
}

// All members request these by single ids, the relay of most members last; returns the last result.
negotiation_result step(negotiation& leader, const std::vector<std::uint32_t>& ids,
                        std::chrono::nanoseconds current_time = 2ms) {
  leader.receive(0, some_requests(ids), current_time);
  leader.receive(1, some_requests(ids), current_time);
  leader.receive(2, every_member(ids), current_time);
  return leader.receive(4, every_member(ids), current_time + 1ms);
}

negotiation with_bucket() {
  auto leader = taught();
  const auto last = step(leader, {1, 2, 3, 4});
  CHECK(last.ready.size() == 4);
  REQUIRE(last.buckets.size() == 2);
  CHECK(last.buckets[0] == bucket{1, {1, 2}, 10ms});
  CHECK(last.buckets[1] == bucket{2, {3, 4}, 10ms});
  return leader;
}

} // namespace

TEST_CASE("a bucket is ready when all have requested it, members without a relay by its ids or its number") {
  auto leader = with_bucket();
  for (int step = 0; step < 3; ++step) {
    CHECK(leader.receive(0, some_requests({2, 1, 3, 4}), 5ms).empty());
    CHECK(leader.receive(2, whole(1), 5ms).empty());
    requests batch;
    batch.buckets = {1, 2};
    CHECK(leader.receive(1, batch, 5ms).empty());
    const auto first = leader.receive(4, whole(1), 6ms);
    REQUIRE(first.ready.size() == 2);
    CHECK(first.ready[0].id == 1);
    CHECK(first.whole);
    CHECK(first.dissolved.empty());
    CHECK(leader.receive(4, whole(2), 6ms).empty());
    const auto second = leader.receive(2, whole(2), 6ms);
    CHECK(second.ready.size() == 2);
    CHECK(second.buckets.empty());
  }
}

TEST_CASE("a member without a relay may request a bucket's ids last") {
  auto leader = with_bucket();
  for (int step = 0; step < 3; ++step) {
    leader.receive(2, whole(1), 5ms);
    leader.receive(0, some_requests({1, 2}), 5ms);
    const auto relays = leader.receive(4, whole(1), 5ms);
    CHECK(relays.empty());
    CHECK_FALSE(relays.whole);
    // The member may request the ids of a bucket one after the other.
    CHECK(leader.receive(1, some_requests({2}), 6ms).ready.at(0).id == 2);
    CHECK(leader.receive(1, some_requests({1}), 7ms).ready.at(0).id == 1);
  }
}

TEST_CASE("a single id of a bucket dissolves the bucket, and no request is lost") {
  auto leader = with_bucket();
  leader.receive(0, some_requests({1, 2}), 5ms);
  leader.receive(1, some_requests({1, 2}), 5ms);
  leader.receive(2, whole(1), 5ms);
  const auto first = leader.receive(4, every_member({2}), 6ms);
  CHECK(first.dissolved == std::vector<std::uint32_t>{1});
  CHECK(first.ready.at(0).id == 2);
  CHECK(leader.receive(4, every_member({1}), 6ms).ready.at(0).id == 1);
  // The other members have not learnt of it yet.
  leader.receive(0, some_requests({1, 2}), 7ms);
  leader.receive(1, some_requests({1, 2}), 7ms);
  leader.receive(2, every_member({1}), 7ms);
  leader.receive(2, every_member({2}), 7ms);
  CHECK(leader.receive(4, whole(1), 7ms).ready.size() == 2);
  CHECK(leader.receive(4, whole(1), 8ms).empty());
}

TEST_CASE("withdrawing a tensor of an open bucket dissolves it, and the waiting members are refused") {
  auto leader = with_bucket();
  leader.receive(0, some_requests({1, 2}), 5ms);
  leader.receive(4, whole(1), 5ms);
  requests back;
  back.withdraw = {"a"};
  const auto decision = leader.receive(50, back, 6ms);
  CHECK(decision.dissolved == std::vector<std::uint32_t>{1});
  CHECK(decision.refusals.size() == 97);
  CHECK(leader.receive(2, whole(1), 7ms).refusals.size() == 2);
  const auto last = leader.receive(1, some_requests({1, 2}), 7ms);
  CHECK(last.refusals.size() == 1);
  CHECK(last.ready.at(0).id == 2);
}

TEST_CASE("a member that joins while a bucket is open is not counted, and the bucket stays") {
  auto leader = with_bucket();
  leader.receive(0, some_requests({1, 2}), 5ms);
  leader.receive(1, some_requests({1, 2}), 5ms);
  leader.receive(2, whole(1), 5ms);
  requests join;
  join.join = true;
  CHECK(leader.receive(50, join, 6ms).dissolved.empty());
  for (const std::uint32_t id : {1, 2}) {
    const auto others = leader.receive(4, together(id, {{4, 46}, {51, 49}}), 6ms);
    CHECK(others.ready.size() == 1);
    CHECK(others.dissolved.empty());
  }
  for (std::int32_t rank = 0; rank < 100; ++rank)
    leader.receive(rank, join, 7ms);
  leader.receive(0, some_requests({1, 2}), 8ms);
  leader.receive(1, some_requests({1, 2}), 8ms);
  leader.receive(2, whole(1), 8ms);
  const auto decision = leader.receive(4, whole(1), 8ms);
  CHECK(decision.ready.size() == 2);
  CHECK(decision.dissolved.empty());
}

TEST_CASE("forgetting an id dissolves its bucket, and members that requested the bucket are asked") {
  auto leader = with_bucket();
  leader.receive(2, whole(1), 5ms);
  // The request has another shape, so that the id is forgotten.
  const auto decision = leader.receive(0, alone(ask("a", 4)), 6ms);
  CHECK(decision.dissolved == std::vector<std::uint32_t>{1});
  CHECK(decision.forget == std::vector<std::uint32_t>{1});
  CHECK(decision.questions.size() == 2);
  CHECK(leader.receive(4, whole(1), 6ms).questions.size() == 96);
}

TEST_CASE("members that are late for a bucket are reported for each of its tensors") {
  auto leader = with_bucket();
  leader.receive(0, some_requests({1, 2}), 5ms);
  leader.receive(4, whole(1), 5ms);
  CHECK(leader.stalled(6ms, 1s).empty());
  const auto late = leader.stalled(2s, 1s);
  REQUIRE(late.size() == 2);
  CHECK(late[0].name == "a");
  CHECK(late[0].missing == std::vector<std::int32_t>{1, 2, 3});
  CHECK(late[0].waited == 2s - 5ms);
  // The bucket can still be completed.
  leader.receive(1, some_requests({1, 2}), 3s);
  CHECK(leader.receive(2, whole(1), 3s).ready.size() == 2);
  leader.receive(0, some_requests({1, 2}), 3s);
  leader.receive(1, some_requests({1, 2}), 3s);
  leader.receive(2, whole(1), 3s);
  CHECK(leader.receive(4, whole(1), 3s).whole);
}

TEST_CASE("a bucket that only relays have requested waits since the first relay's request") {
  auto leader = with_bucket();
  leader.receive(4, whole(1), 5ms);
  const auto late = leader.stalled(2s, 1s);
  REQUIRE(late.size() == 2);
  CHECK(late[1].waited == 2s - 5ms);
}

TEST_CASE("a relay that repeats a bucket while members without a relay are missing is counted once") {
  auto leader = with_bucket();
  leader.receive(0, some_requests({1, 2}), 5ms);
  leader.receive(4, whole(1), 5ms);
  leader.receive(2, whole(1), 5ms);
  CHECK(leader.receive(2, whole(1), 5ms).dissolved == std::vector<std::uint32_t>{1});
  CHECK(leader.receive(1, some_requests({1, 2}), 6ms).ready.size() == 2);
}

TEST_CASE("a relay that repeats a bucket while another relay is missing is counted once") {
  auto leader = with_bucket();
  leader.receive(0, some_requests({1, 2}), 5ms);
  leader.receive(1, some_requests({1, 2}), 5ms);
  leader.receive(2, whole(1), 5ms);
  CHECK(leader.receive(2, whole(1), 5ms).dissolved == std::vector<std::uint32_t>{1});
  CHECK(leader.receive(4, whole(1), 5ms).ready.size() == 2);
}

TEST_CASE("naming a bucket that was not planned breaks the protocol, for relays and members") {
  auto leader = with_bucket();
  auto decision = leader.receive(2, whole(3), 5ms);
  CHECK(decision.breach);
  CHECK(decision.broken_by == 2);
  requests batch;
  batch.buckets = {77};
  decision = leader.receive(1, batch, 5ms);
  CHECK(decision.breach);
  CHECK(decision.broken_by == 1);
  decision = leader.receive(3, whole(1), 5ms);
  CHECK(decision.breach);
  CHECK(decision.broken_by == 3);
}

TEST_CASE("the leader plans as many buckets as the setting allows") {
  auto none = taught(0);
  CHECK(step(none, {1, 2, 3, 4}).buckets.empty());
  auto single = taught(1);
  CHECK(step(single, {1, 2, 3, 4}).buckets == std::vector<bucket>{{1, {1, 2, 3, 4}, 10ms}});
}

TEST_CASE("without relays no bucket is planned") {
  negotiation_options options;
  options.members = {0};
  negotiation leader(options);
  requests all;
  all.full = {ask("a", 3), ask("b", 3)};
  leader.receive(0, all, 1ms);
  for (int count = 0; count < 3; ++count) {
    const auto decision = leader.receive(0, some_requests({1, 2}), 2ms);
    CHECK(decision.ready.size() == 2);
    CHECK(decision.buckets.empty());
  }
}

TEST_CASE("buckets are planned if a member without a relay requests last, unless it leaves") {
  const auto play = [](bool leaves) {
    auto leader = taught();
    leader.receive(0, some_requests({1, 2, 3, 4}), 2ms);
    leader.receive(2, every_member({1, 2, 3, 4}), 2ms);
    leader.receive(4, every_member({1, 2, 3, 4}), 2ms);
    auto last = some_requests({1, 2, 3, 4});
    if (leaves)
      last.leaves = departure{};
    return leader.receive(1, last, 3ms).buckets.size();
  };
  CHECK(play(false) == 2);
  CHECK(play(true) == 0);
}

TEST_CASE("no bucket is planned while a member has joined, nor from a step in which one had joined") {
  auto leader = taught();
  requests join;
  join.join = true;
  leader.receive(50, join, 2ms);
  const rank_runs others{{4, 46}, {51, 49}};
  for (int count = 0; count < 3; ++count) {
    for (const auto rank : {0, 1})
      leader.receive(rank, some_requests({1, 2, 3, 4}), 2ms);
    leader.receive(2, every_member({1, 2, 3, 4}), 2ms);
    gathered rest;
    rest.ids = {{{1, 2, 3, 4}, others}};
    const auto decision = leader.receive(4, rest, 3ms);
    CHECK(decision.ready.size() == 4);
    CHECK(decision.buckets.empty());
  }

  auto all_join = taught();
  CHECK(step(all_join, {1, 2}).ready.size() == 2);
  for (std::int32_t rank = 0; rank < 100; ++rank)
    all_join.receive(rank, join, 3ms);
  CHECK(step(all_join, {3, 4}).buckets.empty());
}

TEST_CASE("an id that is forgotten in a step is in no bucket planned from it") {
  auto leader = taught();
  CHECK(step(leader, {1, 2, 3}).ready.size() == 3);
  CHECK(leader.receive(0, alone(ask("a", 4)), 3ms).forget == std::vector<std::uint32_t>{1});
  const auto last = step(leader, {4});
  CHECK(last.ready.size() == 1);
  CHECK(last.buckets.empty());
}

TEST_CASE("a bucket that is requested after a join waits for the requests of its ids") {
  auto leader = with_bucket();
  requests join;
  join.join = true;
  leader.receive(50, join, 5ms);
  leader.receive(0, some_requests({1, 2}), 6ms);
  leader.receive(1, some_requests({1, 2}), 6ms);
  CHECK(leader.receive(2, whole(1), 6ms).empty());
  for (const std::uint32_t id : {1, 2})
    CHECK(leader.receive(4, together(id, {{4, 46}, {51, 49}}), 6ms).ready.size() == 1);
}

TEST_CASE("a relayed member that requests an id of a bucket itself dissolves the bucket") {
  auto leader = with_bucket();
  leader.receive(2, whole(1), 5ms);
  CHECK(leader.receive(50, some_requests({2}), 5ms).dissolved == std::vector<std::uint32_t>{1});
  CHECK(leader.receive(0, some_requests({1}), 5ms).dissolved.empty());
}

TEST_CASE("a member may name a bucket before it learns that the bucket was dissolved") {
  auto leader = with_bucket();
  CHECK(leader.receive(4, every_member({1, 2}), 5ms).dissolved == std::vector<std::uint32_t>{1});
  leader.receive(0, some_requests({1, 2}), 5ms);
  leader.receive(2, every_member({1, 2}), 5ms);
  requests own;
  own.buckets = {1};
  CHECK(leader.receive(1, own, 5ms).ready.size() == 2);
}

TEST_CASE("after an unplanned bucket in a relay's message, its other buckets are not counted") {
  auto leader = with_bucket();
  auto mixed = whole(77);
  mixed.buckets.push_back(1);
  CHECK(leader.receive(2, mixed, 5ms).breach);
  CHECK(leader.receive(2, whole(1), 5ms).dissolved.empty());
}
