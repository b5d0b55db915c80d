// The leader receives the requests of many members at once, and decides what it would decide if each had sent
// its own.
#include "collectives/negotiation/negotiation_testing.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

TEST_CASE("the members of a relay's subtree are all counted, in full and by id") {
  auto leader = made();
  const auto first = all_ask(leader, ask("a", 3));
  REQUIRE(first.assignments.size() == 1);
  CHECK(first.ready.size() == 1);
  for (int step = 0; step < 3; ++step)
    CHECK(all_ask(leader, first.assignments[0].id).ready.size() == 1);
}

TEST_CASE("members of a subtree that are late are named") {
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
  const auto decision = leader.receive(4, mixed, 0ns);
  REQUIRE(decision.failures.size() == 1);
  CHECK(decision.failures[0].reason.text.find("rank 0 has [3], rank 44 has [4]") != std::string::npos);

  leader.receive(4, together(ask("b", 7)), 0ns);
  leader.receive(2, together(ask("b", 7)), 0ns);
  leader.receive(1, alone(ask("b", 8)), 0ns);
  const auto other = leader.receive(0, alone(ask("b", 8)), 0ns);
  REQUIRE(other.failures.size() == 1);
  CHECK(other.failures[0].reason.text.find("rank 0 has [8], rank 2 has [7]") != std::string::npos);
}

TEST_CASE("the rows of a gather are added up for each member of a subtree") {
  auto leader = made();
  leader.receive(0, alone(ask("g", 5, operation::allgather)), 0ns);
  leader.receive(1, alone(ask("g", 6, operation::allgather)), 0ns);
  leader.receive(4, together(ask("g", 1, operation::allgather)), 0ns);
  const auto decision = leader.receive(2, together(ask("g", 2, operation::allgather)), 0ns);
  REQUIRE(decision.ready.size() == 1);
  CHECK(decision.ready[0].elements == 5 + 6 + 2 * 2 + 96);
}

TEST_CASE("every member of a subtree that waits under a forgotten id is asked") {
  auto leader = made();
  all_ask(leader, ask("a", 3));
  leader.receive(2, together(1), 0ns);
  const auto changed = leader.receive(0, alone(ask("a", 4)), 0ns);
  CHECK(changed.forget == std::vector<std::uint32_t>{1});
  CHECK(changed.questions == std::vector<question>{{2, 1}, {3, 1}});
  CHECK(leader.receive(4, together(1), 0ns).questions.size() == 96);
}

TEST_CASE("the devices of a subtree's members are recorded, and a changed one is negotiated again") {
  const auto on = [](std::uint8_t device) {
    auto asked = ask("a", 3);
    asked.signature.memory = memory_kind::device;
    asked.device = device;
    return asked;
  };
  auto leader = made();
  const auto all_but_4 = [&] {
    leader.receive(0, alone(on(0)), 0ns);
    leader.receive(1, alone(on(0)), 0ns);
    leader.receive(2, together(on(0)), 0ns);
  };
  all_but_4();
  leader.receive(4, together(on(0), {{4, 1}}), 0ns);
  const auto first = leader.receive(4, together(on(1), {{5, 95}}), 0ns);
  REQUIRE(first.ready.size() == 1);
  CHECK(first.ready[0].memory == memory_kind::device);
  std::vector<std::uint8_t> devices(100, 1);
  std::fill_n(devices.begin(), 5, std::uint8_t{0});
  REQUIRE(first.ready[0].details);
  CHECK(first.ready[0].details->devices == devices);
  // With all tensors on the first devices, the id no longer stands for them.
  all_but_4();
  const auto second = leader.receive(4, together(on(0)), 0ns);
  CHECK(second.forget == std::vector<std::uint32_t>{first.ready[0].id});
}

TEST_CASE("the members of a subtree that are absent have no rows, and the others have theirs") {
  auto away = ask("g", 7);
  away.absent = true;
  auto leader = made();
  leader.receive(0, alone(away), 0ns);
  leader.receive(1, alone(away), 0ns);
  leader.receive(2, together(away), 0ns);
  leader.receive(4, together(away, {{4, 90}}), 0ns);
  const auto decision = leader.receive(4, together(ask("g", 2, operation::allgather), {{94, 6}}), 0ns);
  REQUIRE(decision.ready.size() == 1);
  std::vector<std::int64_t> rows(100);
  std::fill_n(rows.end() - 6, 6, 2);
  REQUIRE(decision.ready[0].details);
  CHECK(decision.ready[0].details->first_dims == rows);

  for (int step = 0; step < 2; ++step) {
    leader.receive(0, alone(away), 0ns);
    leader.receive(1, alone(away), 0ns);
    leader.receive(4, together(away), 0ns);
    CHECK(leader.receive(2, together(away), 0ns).absent == std::vector<std::string>{"g"});
  }
}

TEST_CASE("one member of a subtree that asks for no fast path keeps the tensor without a cell") {
  fast_path_options fast_path;
  fast_path.on = fast_path.one_host = true;
  fast_path.limit_bytes = 256;
  fast_path.area_bytes = 4096;
  fast_path.footprint = [](std::size_t bytes) { return bytes; };
  auto no_fast_path = ask("a", 3);
  no_fast_path.no_fast_path = true;
  const auto play = [&](bool at_first, bool later) {
    auto leader = made(fast_path);
    leader.receive(4, together(at_first ? no_fast_path : ask("a", 3), {{4, 1}}), 0ns);
    leader.receive(4, together(ask("a", 3), {{5, 95}}), 0ns);
    leader.receive(2, together(ask("a", 3)), 0ns);
    leader.receive(0, alone(ask("a", 3)), 0ns);
    CHECK(leader.receive(1, alone(ask("a", 3)), 0ns).ready.size() == 1);
    leader.receive(0, alone(1), 0ns);
    leader.receive(1, alone(1), 0ns);
    leader.receive(2, later ? together(no_fast_path) : together(1), 0ns);
    const auto second = leader.receive(4, together(1), 0ns);
    CHECK(second.ready.size() == 1);
    // Members that have not heard of the cell are asked for the tensor.
    CHECK(leader.receive(2, together(1), 0ns).questions.size() == 2 * second.assignments.size());
    return second.assignments.size();
  };
  CHECK(play(false, false) == 1);
  CHECK(play(true, false) == 0);
  CHECK(play(false, true) == 0);
}

TEST_CASE("each member of a subtree that requests a withdrawn tensor by id is refused") {
  auto leader = made();
  all_ask(leader, ask("a", 3));
  leader.receive(0, alone(1), 0ns);
  requests back;
  back.withdraw = {"a"};
  CHECK(leader.receive(0, back, 0ns).refusals.size() == 1);
  // The request is early and counts for the next round.
  CHECK(leader.receive(0, alone(1), 0ns).empty());
  CHECK(leader.receive(4, together(1), 0ns).refusals.size() == 96);
  CHECK(leader.receive(2, together(1), 0ns).refusals.size() == 2);
  CHECK(leader.receive(1, alone(1), 0ns).refusals.size() == 1);
  leader.receive(1, alone(1), 0ns);
  leader.receive(4, together(1), 0ns);
  CHECK(leader.receive(2, together(1), 0ns).ready.size() == 1);
}

TEST_CASE("a member that has joined is not counted with its subtree") {
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

TEST_CASE("a relay that forwards for ranks outside its subtree breaks the protocol") {
  auto leader = made();
  for (const auto& batch : {together(1, {{3, 2}}), together(1, {{99, 2}}), together(1, {{0, 1}})}) {
    const auto decision = leader.receive(2, batch, 0ns);
    CHECK(decision.breach);
    CHECK(decision.broken_by == 2);
  }
  CHECK(leader.receive(3, together(1), 0ns).breach);
  CHECK(leader.speaks_for(4, 99));
  CHECK(!leader.speaks_for(4, 3));
  CHECK(!leader.speaks_for(2, 100));
  CHECK(!leader.speaks_for(3, 3));
  // A member that breaks the protocol through its relay is named itself.
  const auto decision = leader.receive(4, together(ask("j", 1, operation::join), {{77, 2}}), 0ns);
  CHECK(decision.breach);
  CHECK(decision.broken_by == 77);
}

TEST_CASE("each member of a subtree that requests a withdrawn tensor in full is refused") {
  auto leader = made();
  leader.receive(0, alone(ask("a", 3)), 0ns);
  requests back;
  back.withdraw = {"a"};
  CHECK(leader.receive(0, back, 0ns).refusals.size() == 1);
  CHECK(leader.receive(4, together(ask("a", 3)), 0ns).refusals.size() == 96);
}

TEST_CASE("a member that sent its own request before is counted once with its subtree") {
  auto leader = made();
  leader.receive(50, alone(ask("a", 3)), 0ns);
  CHECK(leader.receive(0, alone(ask("a", 3)), 0ns).empty());
  CHECK(leader.receive(1, alone(ask("a", 3)), 0ns).empty());
  CHECK(leader.receive(2, together(ask("a", 3)), 0ns).empty());
  const auto last = leader.receive(4, together(ask("a", 3)), 0ns);
  CHECK(last.ready.size() == 1);
  CHECK_FALSE(last.breach);
  CHECK(last.broken_by == -1);
}

TEST_CASE("requests that follow a relay's breach in its message are not taken") {
  auto leader = made();
  leader.receive(0, alone(ask("a", 3)), 0ns);
  leader.receive(1, alone(ask("a", 3)), 0ns);
  leader.receive(2, together(ask("a", 3)), 0ns);
  auto mixed = together(ask("a", 3));
  mixed.ids = {{{1}, {{0, 1}}}};
  const auto decision = leader.receive(4, mixed, 0ns);
  CHECK(decision.breach);
  CHECK(decision.ready.empty());
}

TEST_CASE("after the end the leader ignores gathered requests") {
  auto leader = made();
  leader.receive(0, alone(ask("a", 3)), 0ns);
  leader.receive(1, alone(ask("a", 3)), 0ns);
  leader.receive(2, together(ask("a", 3)), 0ns);
  leader.end();
  CHECK(leader.receive(4, together(ask("a", 3)), 0ns).empty());
}

TEST_CASE("gathered requests may evict an id of an earlier schedule, but none of their own schedule") {
  negotiation_options options;
  options.members = {2, 3, 4, 5};
  options.branches = {{2, {2, 3}}, {4, {4, 5}}};
  options.cache_capacity = 1;
  negotiation leader(options);
  leader.receive(2, together(ask("a", 3)), 0ns);
  CHECK(leader.receive(4, together(ask("a", 3)), 0ns).assignments.size() == 1);
  gathered both;
  both.full = {{ask("b", 3), {}}, {ask("c", 3), {}}};
  leader.receive(2, both, 0ns);
  const auto decision = leader.receive(4, both, 0ns);
  CHECK(decision.ready.size() == 2);
  CHECK(decision.forget == std::vector<std::uint32_t>{1});
  REQUIRE(decision.assignments.size() == 1);
  CHECK(decision.assignments[0].name == "b");
}
