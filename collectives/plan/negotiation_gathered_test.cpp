// The leader hears many members at once; it must come to what it would have decided had each spoken alone.
#include "collectives/plan/negotiation.hpp"

#include <catch2/catch.hpp>

#include <numeric>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

// Rank 0 with rank 1 beside it, and relays 2 (for 2 and 3) and 4 (for 4 … 99).
negotiation made(const board_options& board = {}) {
  negotiation_options options;
  options.board = board;
  options.members.resize(100);
  std::iota(options.members.begin(), options.members.end(), 0);
  std::vector<std::int32_t> many(options.members.begin() + 4, options.members.end());
  options.branches = {{2, {2, 3}}, {4, many}};
  return negotiation(options);
}

request ask(std::string name, std::int64_t elements, operation what = operation::allreduce) {
  request result;
  result.name = std::move(name);
  result.signature.operation = what;
  result.signature.shape = {elements};
  return result;
}

requests alone(const request& what) {
  requests result;
  result.full = {what};
  return result;
}

requests alone(std::uint32_t id) {
  requests result;
  result.ids = {id};
  return result;
}

gathered together(const request& what, rank_runs ranks = {}) {
  gathered result;
  result.full = {{what, std::move(ranks)}};
  return result;
}

gathered together(std::uint32_t id, rank_runs ranks = {}) {
  gathered result;
  result.ids = {{{id}, std::move(ranks)}};
  return result;
}

// All ask for `what`; the verdict of the last.
template <class What>
verdict all_ask(negotiation& leader, const What& what) {
  CHECK(leader.receive(0, alone(what), 0ns).empty());
  CHECK(leader.receive(4, together(what), 0ns).empty());
  CHECK(leader.receive(1, alone(what), 0ns).empty());
  return leader.receive(2, together(what), 0ns);
}

} // namespace

TEST_CASE("subtrees are counted as their members, in full and by id") {
  auto leader = made();
  const auto first = all_ask(leader, ask("a", 3));
  REQUIRE(first.assignments.size() == 1);
  CHECK(first.ready.size() == 1);
  for (int step = 0; step < 3; ++step)
    CHECK(all_ask(leader, first.assignments[0].id).ready.size() == 1);
}

TEST_CASE("who is late in a subtree is named") {
  auto leader = made();
  all_ask(leader, ask("a", 3));
  CHECK(leader.receive(4, together(1, {{4, 10}, {16, 84}}), 0ns).empty());
  CHECK(leader.receive(2, together(1), 0ns).empty());
  const auto late = leader.stalled(1s, 0ns);
  REQUIRE(late.size() == 1);
  CHECK(late[0].missing == std::vector<std::int32_t>{0, 1, 14, 15});
  leader.receive(0, alone(1), 0ns);
  leader.receive(1, alone(1), 0ns);
  CHECK(leader.receive(4, together(1, {{14, 2}}), 0ns).ready.size() == 1);
}

TEST_CASE("members that disagree within and between subtrees are named with both values") {
  auto leader = made();
  leader.receive(0, alone(ask("a", 3)), 0ns);
  leader.receive(1, alone(ask("a", 3)), 0ns);
  leader.receive(2, together(ask("a", 3)), 0ns);
  gathered mixed;
  mixed.full = {{ask("a", 3), {{4, 40}, {45, 55}}}, {ask("a", 4), {{44, 1}}}};
  const auto out = leader.receive(4, mixed, 0ns);
  REQUIRE(out.failures.size() == 1);
  CHECK(out.failures[0].reason.text.find("rank 0 has [3], rank 44 has [4]") != std::string::npos);

  leader.receive(4, together(ask("b", 7)), 0ns);
  leader.receive(2, together(ask("b", 7)), 0ns);
  leader.receive(1, alone(ask("b", 8)), 0ns);
  const auto other = leader.receive(0, alone(ask("b", 8)), 0ns);
  REQUIRE(other.failures.size() == 1);
  CHECK(other.failures[0].reason.text.find("rank 0 has [8], rank 2 has [7]") != std::string::npos);
}

TEST_CASE("rows of a gather are those of each member, also where many bring as many") {
  auto leader = made();
  leader.receive(0, alone(ask("g", 5, operation::allgather)), 0ns);
  leader.receive(1, alone(ask("g", 6, operation::allgather)), 0ns);
  leader.receive(4, together(ask("g", 1, operation::allgather)), 0ns);
  const auto out = leader.receive(2, together(ask("g", 2, operation::allgather)), 0ns);
  REQUIRE(out.ready.size() == 1);
  CHECK(out.ready[0].elements == 5 + 6 + 2 * 2 + 96);
}

TEST_CASE("a forgotten id is asked of everybody that stands behind it") {
  auto leader = made();
  all_ask(leader, ask("a", 3));
  leader.receive(2, together(1), 0ns);
  const auto changed = leader.receive(0, alone(ask("a", 4)), 0ns);
  CHECK(changed.forget == std::vector<std::uint32_t>{1});
  CHECK(changed.questions == std::vector<question>{{2, 1}, {3, 1}});
  CHECK(leader.receive(4, together(1), 0ns).questions.size() == 96);
}

TEST_CASE("one of a subtree that wants no seat keeps the tensor off the board") {
  board_options board;
  board.on = board.one_host = true;
  board.limit_bytes = 256;
  board.area_bytes = 4096;
  board.footprint = [](std::size_t bytes) { return bytes; };
  auto seatless = ask("a", 3);
  seatless.seatless = true;
  const auto play = [&](bool at_first, bool later) {
    auto leader = made(board);
    leader.receive(4, together(at_first ? seatless : ask("a", 3), {{4, 1}}), 0ns);
    leader.receive(4, together(ask("a", 3), {{5, 95}}), 0ns);
    leader.receive(2, together(ask("a", 3)), 0ns);
    leader.receive(0, alone(ask("a", 3)), 0ns);
    CHECK(leader.receive(1, alone(ask("a", 3)), 0ns).ready.size() == 1);
    leader.receive(0, alone(1), 0ns);
    leader.receive(1, alone(1), 0ns);
    leader.receive(2, later ? together(seatless) : together(1), 0ns);
    const auto second = leader.receive(4, together(1), 0ns);
    CHECK(second.ready.size() == 1);
    return second.assignments.size();
  };
  CHECK(play(false, false) == 1);
  CHECK(play(true, false) == 0);
  CHECK(play(false, true) == 0);
}

TEST_CASE("who asks for what was taken back is turned away, each of a subtree") {
  auto leader = made();
  all_ask(leader, ask("a", 3));
  leader.receive(0, alone(1), 0ns);
  requests back;
  back.withdraw = {"a"};
  CHECK(leader.receive(0, back, 0ns).refusals.size() == 1);
  // Early, for the next round.
  CHECK(leader.receive(0, alone(1), 0ns).empty());
  CHECK(leader.receive(4, together(1), 0ns).refusals.size() == 96);
  CHECK(leader.receive(2, together(1), 0ns).refusals.size() == 2);
  CHECK(leader.receive(1, alone(1), 0ns).refusals.size() == 1);
  leader.receive(1, alone(1), 0ns);
  leader.receive(4, together(1), 0ns);
  CHECK(leader.receive(2, together(1), 0ns).ready.size() == 1);
}

TEST_CASE("who has joined is not counted with its subtree") {
  auto leader = made();
  all_ask(leader, ask("a", 3));
  requests join;
  join.join = true;
  leader.receive(50, join, 0ns);
  leader.receive(0, alone(1), 0ns);
  leader.receive(1, alone(1), 0ns);
  leader.receive(2, together(1), 0ns);
  CHECK(leader.receive(4, together(1, {{4, 46}, {51, 49}}), 0ns).ready.size() == 1);
}

TEST_CASE("a relay that speaks for others than its own breaks the protocol") {
  auto leader = made();
  for (const auto& what : {together(1, {{3, 2}}), together(1, {{99, 2}}), together(1, {{0, 1}})}) {
    const auto out = leader.receive(2, what, 0ns);
    CHECK(out.breach);
    CHECK(out.broken_by == 2);
  }
  CHECK(leader.receive(3, together(1), 0ns).breach);
  CHECK(leader.speaks_for(4, 99));
  CHECK(!leader.speaks_for(4, 3));
  CHECK(!leader.speaks_for(2, 100));
  CHECK(!leader.speaks_for(3, 3));
  // A member that breaks it is named itself.
  const auto out = leader.receive(4, together(ask("j", 1, operation::join), {{77, 1}}), 0ns);
  CHECK(out.breach);
  CHECK(out.broken_by == 77);
}

namespace {

// Has learnt bucket 1, of ids 1 to 4.
negotiation taught() {
  auto leader = made();
  std::vector<request> what;
  for (const auto* name : {"a", "b", "c", "d"})
    what.push_back(ask(name, 3));
  requests own;
  own.full = what;
  gathered theirs;
  for (const auto& one : what)
    theirs.full.push_back({one, {}});
  leader.receive(0, own, 1ms);
  leader.receive(1, own, 1ms);
  leader.receive(2, theirs, 1ms);
  CHECK(leader.receive(4, theirs, 1ms).ready.size() == 4);
  return leader;
}

requests some(std::vector<std::uint32_t> ids) {
  requests result;
  result.ids = std::move(ids);
  return result;
}

gathered all_of(std::vector<std::uint32_t> ids) {
  gathered result;
  result.ids = {{std::move(ids), {}}};
  return result;
}

gathered whole(std::uint32_t bucket) {
  gathered result;
  result.buckets = {bucket};
  return result;
}

negotiation with_bucket() {
  auto leader = taught();
  leader.receive(0, some({1, 2, 3, 4}), 2ms);
  leader.receive(1, some({1, 2, 3, 4}), 2ms);
  leader.receive(2, all_of({1, 2, 3, 4}), 2ms);
  const auto last = leader.receive(4, all_of({1, 2, 3, 4}), 3ms);
  CHECK(last.ready.size() == 4);
  REQUIRE(last.buckets.size() == 2);
  CHECK(last.buckets[0] == bucket{1, {1, 2}, 10ms});
  CHECK(last.buckets[1] == bucket{2, {3, 4}, 10ms});
  return leader;
}

} // namespace

TEST_CASE("a bucket is ready when all have asked for it, members beside relays by its ids or its number") {
  auto leader = with_bucket();
  for (int step = 0; step < 3; ++step) {
    CHECK(leader.receive(0, some({2, 1, 3, 4}), 5ms).empty());
    CHECK(leader.receive(2, whole(1), 5ms).empty());
    requests mine;
    mine.buckets = {1, 2};
    CHECK(leader.receive(1, mine, 5ms).empty());
    const auto first = leader.receive(4, whole(1), 6ms);
    REQUIRE(first.ready.size() == 2);
    CHECK(first.ready[0].id == 1);
    CHECK(first.whole);
    CHECK(first.dissolved.empty());
    CHECK(leader.receive(4, whole(2), 6ms).empty());
    CHECK(leader.receive(2, whole(2), 6ms).ready.size() == 2);
  }
}

TEST_CASE("who speaks for itself may come last") {
  auto leader = with_bucket();
  for (int step = 0; step < 3; ++step) {
    leader.receive(2, whole(1), 5ms);
    leader.receive(0, some({1, 2}), 5ms);
    CHECK(leader.receive(4, whole(1), 5ms).empty());
    // It need not be ready for all of it.
    CHECK(leader.receive(1, some({2}), 6ms).ready.at(0).id == 2);
    CHECK(leader.receive(1, some({1}), 7ms).ready.at(0).id == 1);
  }
}

TEST_CASE("an id of a bucket that comes singly dissolves it, and nothing is lost") {
  auto leader = with_bucket();
  leader.receive(0, some({1, 2}), 5ms);
  leader.receive(1, some({1, 2}), 5ms);
  leader.receive(2, whole(1), 5ms);
  const auto first = leader.receive(4, all_of({2}), 6ms);
  CHECK(first.dissolved == std::vector<std::uint32_t>{1});
  CHECK(first.ready.at(0).id == 2);
  CHECK(leader.receive(4, all_of({1}), 6ms).ready.at(0).id == 1);
  // Others have not heard yet.
  leader.receive(0, some({1, 2}), 7ms);
  leader.receive(1, some({1, 2}), 7ms);
  leader.receive(2, all_of({1}), 7ms);
  leader.receive(2, all_of({2}), 7ms);
  CHECK(leader.receive(4, whole(1), 7ms).ready.size() == 2);
  CHECK(leader.receive(4, whole(1), 8ms).empty());
}

TEST_CASE("who takes a tensor of an open bucket back is heard, and the others are told") {
  auto leader = with_bucket();
  leader.receive(0, some({1, 2}), 5ms);
  leader.receive(4, whole(1), 5ms);
  requests back;
  back.withdraw = {"a"};
  const auto out = leader.receive(50, back, 6ms);
  CHECK(out.dissolved == std::vector<std::uint32_t>{1});
  CHECK(out.refusals.size() == 97);
  CHECK(leader.receive(2, whole(1), 7ms).refusals.size() == 2);
  const auto last = leader.receive(1, some({1, 2}), 7ms);
  CHECK(last.refusals.size() == 1);
  CHECK(last.ready.at(0).id == 2);
}

TEST_CASE("who joins in the midst of a bucket is not counted, and the bucket stays") {
  auto leader = with_bucket();
  leader.receive(0, some({1, 2}), 5ms);
  leader.receive(1, some({1, 2}), 5ms);
  leader.receive(2, whole(1), 5ms);
  requests join;
  join.join = true;
  CHECK(leader.receive(50, join, 6ms).dissolved.empty());
  CHECK(leader.receive(4, together(1, {{4, 46}, {51, 49}}), 6ms).ready.size() == 1);
  CHECK(leader.receive(4, together(2, {{4, 46}, {51, 49}}), 6ms).ready.size() == 1);
  for (std::int32_t rank = 0; rank < 100; ++rank)
    leader.receive(rank, join, 7ms);
  leader.receive(0, some({1, 2}), 8ms);
  leader.receive(1, some({1, 2}), 8ms);
  leader.receive(2, whole(1), 8ms);
  const auto out = leader.receive(4, whole(1), 8ms);
  CHECK(out.ready.size() == 2);
  CHECK(out.dissolved.empty());
}

TEST_CASE("an id that is forgotten leaves no bucket behind, and who had asked in it is asked") {
  auto leader = with_bucket();
  leader.receive(2, whole(1), 5ms);
  // Another shape: the id is of no use any more.
  const auto out = leader.receive(0, alone(ask("a", 4)), 6ms);
  CHECK(out.dissolved == std::vector<std::uint32_t>{1});
  CHECK(out.forget == std::vector<std::uint32_t>{1});
  CHECK(out.questions.size() == 2);
  CHECK(leader.receive(4, whole(1), 6ms).questions.size() == 96);
}

TEST_CASE("who is late for a bucket is named, tensor by tensor") {
  auto leader = with_bucket();
  leader.receive(0, some({1, 2}), 5ms);
  leader.receive(4, whole(1), 5ms);
  CHECK(leader.stalled(6ms, 1s).empty());
  const auto late = leader.stalled(2s, 1s);
  REQUIRE(late.size() == 2);
  CHECK(late[0].name == "a");
  CHECK(late[0].missing == std::vector<std::int32_t>{1, 2, 3});
  // It goes on from there.
  leader.receive(1, some({1, 2}), 3s);
  CHECK(leader.receive(2, whole(1), 3s).ready.size() == 2);
  leader.receive(0, some({1, 2}), 3s);
  leader.receive(1, some({1, 2}), 3s);
  leader.receive(2, whole(1), 3s);
  CHECK(leader.receive(4, whole(1), 3s).whole);
}

TEST_CASE("a relay that says a bucket twice is counted once") {
  auto leader = with_bucket();
  leader.receive(0, some({1, 2}), 5ms);
  leader.receive(1, some({1, 2}), 5ms);
  leader.receive(2, whole(1), 5ms);
  CHECK(leader.receive(2, whole(1), 5ms).dissolved == std::vector<std::uint32_t>{1});
  CHECK(leader.receive(4, whole(1), 5ms).ready.size() == 2);
}

TEST_CASE("a bucket that nobody planned breaks the protocol, whoever says it") {
  auto leader = with_bucket();
  auto out = leader.receive(2, whole(3), 5ms);
  CHECK(out.breach);
  CHECK(out.broken_by == 2);
  requests mine;
  mine.buckets = {77};
  out = leader.receive(1, mine, 5ms);
  CHECK(out.breach);
  CHECK(out.broken_by == 1);
  out = leader.receive(3, whole(1), 5ms);
  CHECK(out.breach);
  CHECK(out.broken_by == 3);
}
