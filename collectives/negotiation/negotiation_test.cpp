// Cases that transcripts express badly: many members, long runs, and requests that must not be mixed up.
#include "collectives/negotiation/negotiation.hpp"

#include <catch2/catch.hpp>

#include <numeric>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

negotiation_options members(std::int32_t count) {
  negotiation_options options;
  options.members.resize(static_cast<std::size_t>(count));
  std::iota(options.members.begin(), options.members.end(), 0);
  return options;
}

request ask(std::string name, std::int64_t elements = 1) {
  request asked_request;
  asked_request.name = std::move(name);
  asked_request.signature.shape = {elements};
  return asked_request;
}

requests full(std::vector<request> request_list) {
  requests message;
  message.full = std::move(request_list);
  return message;
}

requests by_id(std::vector<std::uint32_t> ids) {
  requests message;
  message.ids = std::move(ids);
  return message;
}

} // namespace

TEST_CASE("the last of a thousand members makes a tensor ready, in full and by id") {
  constexpr std::int32_t count = 1000;
  negotiation leader(members(count));
  for (std::int32_t rank = 0; rank < count - 1; ++rank)
    REQUIRE(leader.receive(rank, full({ask("a"), ask("b")}), 0ns).empty());
  CHECK(leader.receive(count - 1, full({ask("b"), ask("a")}), 0ns).ready.size() == 2);
  for (std::int32_t rank = count - 1; rank > 0; --rank)
    REQUIRE(leader.receive(rank, by_id({1, 2}), 0ns).empty());
  CHECK(leader.receive(0, by_id({2, 1}), 0ns).ready.at(0).id == 2);
}

TEST_CASE("one member among a thousand that disagrees is named") {
  constexpr std::int32_t count = 1000;
  negotiation leader(members(count));
  for (std::int32_t rank = count - 1; rank > 0; --rank)
    REQUIRE(leader.receive(rank, full({ask("a", rank == 517 ? 4 : 3)}), 0ns).empty());
  const auto decision = leader.receive(0, full({ask("a", 3)}), 0ns);
  REQUIRE(decision.failures.size() == 1);
  CHECK(decision.failures[0].reason.text.find("rank 0 has [3], rank 517 has [4]") != std::string::npos);
  CHECK(leader.ids() == 0);
}

TEST_CASE("unnamed tensors that are used once do not grow the leader's memory") {
  auto options = members(2);
  options.cache_capacity = 4;
  negotiation leader(options);
  std::size_t forgotten = 0;
  for (int step = 0; step < 3000; ++step) {
    const auto name = "allreduce.noname." + std::to_string(step);
    leader.receive(0, full({ask(name)}), 0ns);
    const auto decision = leader.receive(1, full({ask(name)}), 0ns);
    REQUIRE(decision.ready.size() == 1);
    forgotten += decision.forget.size();
  }
  CHECK(leader.ids() == 4);
  CHECK(forgotten == 2996);
}

TEST_CASE("an id that is scheduled in a step is not evicted in the same step") {
  auto options = members(1);
  options.cache_capacity = 2;
  negotiation leader(options);
  const auto decision = leader.receive(0, full({ask("a"), ask("b"), ask("c")}), 0ns);
  CHECK(decision.forget.empty());
  REQUIRE(decision.ready.size() == 3);
  CHECK(decision.ready[2].name() == "c");
  CHECK(decision.ready[2].id == 0);
}

TEST_CASE("a member that waits under a forgotten id is asked once and keeps waiting") {
  auto options = members(2);
  options.cache_capacity = 1;
  negotiation leader(options);
  for (std::int32_t rank : {0, 1})
    leader.receive(rank, full({ask("a", 3)}), 0ns);
  leader.receive(0, by_id({1}), 0ns);
  leader.receive(0, full({ask("b")}), 0ns);
  const auto evicting = leader.receive(1, full({ask("b")}), 0ns);
  CHECK(evicting.forget == std::vector<std::uint32_t>{1});
  CHECK(evicting.questions == std::vector<question>{{0, 1}});
  CHECK(leader.receive(1, by_id({1}), 0ns).questions == std::vector<question>{{1, 1}});
  CHECK(leader.receive(1, full({ask("a", 3)}), 0ns).empty());
  CHECK(leader.receive(0, full({ask("a", 3)}), 0ns).ready.at(0).elements == 3);
}

TEST_CASE("gathers whose total number of rows overflows fail") {
  const auto op = GENERATE(operation::allgather, operation::alltoall);
  negotiation leader(members(2));
  auto huge = ask("g", std::int64_t{1} << 60);
  huge.signature.operation = op;
  huge.signature.dtype = dtype::uint8;
  huge.signature.shape.push_back(4);
  leader.receive(0, full({huge}), 0ns);
  const auto decision = leader.receive(1, full({huge}), 0ns);
  REQUIRE(decision.failures.size() == 1);
  CHECK(decision.failures[0].reason.kind == error_kind::precondition);
}

TEST_CASE("after the end the leader ignores requests") {
  negotiation leader(members(1));
  requests last;
  last.leaves = departure{};
  CHECK(leader.receive(0, last, 0ns).end);
  CHECK(leader.ended());
  CHECK(leader.receive(0, full({ask("a")}), 0ns).empty());
}

TEST_CASE("a member's set fault restarts the set for all, and is accepted only by the global set") {
  auto options = members(2);
  options.keeps_sets = true;
  negotiation leader(options);
  requests change, fault;
  change.change = set_change{set_change_kind::create, 0, {{1}}};
  fault.faults = {{1, "it broke"}};
  REQUIRE(leader.receive(0, change, 0ns).empty());
  REQUIRE(leader.receive(1, change, 0ns).sets.size() == 1);
  CHECK(leader.receive(1, fault, 0ns).restarts ==
        std::vector<set_restart>{{1, set_event{2, 1, false, {1}}, "on rank 1: it broke"}});

  negotiation other(members(2));
  const auto decision = other.receive(1, fault, 0ns);
  CHECK(decision.breach);
  CHECK(decision.broken_by == 1);
  CHECK(decision.restarts.empty());
}

TEST_CASE("rows without elements that a schedule cannot carry fail instead of becoming ready") {
  negotiation leader(members(2));
  auto gathers = ask("a");
  gathers.signature.operation = operation::allgather;
  // Each request is valid; together they hold 2^61 rows, one more than a member reads of float32.
  gathers.signature.shape = {std::int64_t{1} << 60, 0};
  REQUIRE(decode_requests(encode(address{1, 0, 0}, full({gathers}))));
  leader.receive(0, full({gathers}), 0ns);
  const auto decided = leader.receive(1, full({gathers}), 0ns);
  CHECK(decided.ready.empty());
  REQUIRE(decided.failures.size() == 1);
  CHECK(decided.failures[0].reason.text.find("hold more than can be counted") != std::string::npos);
}

TEST_CASE("the ready tensor has the operation, dtype and scales of its requests, in full and by id") {
  request reduced = ask("reduced", 6);
  reduced.signature.operation = operation::reducescatter;
  reduced.signature.dtype = dtype::int64;
  reduced.signature.reduce_op = reduce_op::max;
  reduced.signature.prescale = 2.0;
  reduced.signature.postscale = 0.5;
  request sent = ask("sent", 6);
  sent.signature.operation = operation::broadcast;
  sent.signature.root = 1;
  negotiation leader(members(2));
  leader.receive(0, full({reduced, sent}), 0ns);
  const auto first = leader.receive(1, full({reduced, sent}), 0ns).ready;
  leader.receive(0, by_id({1, 2}), 0ns);
  const auto again = leader.receive(1, by_id({1, 2}), 0ns).ready;
  REQUIRE(first.size() == 2);
  CHECK(first == again);
  CHECK(first[0].operation == operation::reducescatter);
  CHECK(first[0].dtype == dtype::int64);
  CHECK(first[0].reduce_op == reduce_op::max);
  CHECK(first[0].prescale == 2.0);
  CHECK(first[0].postscale == 0.5);
  CHECK(first[0].bytes == 48);
  CHECK(first[1].operation == operation::broadcast);
  CHECK(first[1].root == 1);
}

TEST_CASE("the end is reported once, by end() or by a member that leaves") {
  negotiation alone(members(1));
  CHECK(alone.end().end);
  CHECK_FALSE(alone.end().end);
  negotiation left(members(1));
  requests goes;
  goes.leaves = departure{};
  CHECK(left.receive(0, goes, 0ns).end);
  CHECK_FALSE(left.end().end);
}

TEST_CASE("requesting a tensor by id and in full with different values breaks the protocol") {
  negotiation leader(members(2));
  leader.receive(0, full({ask("a")}), 0ns);
  leader.receive(1, full({ask("a")}), 0ns);
  REQUIRE(leader.receive(1, by_id({1}), 0ns).empty());
  const auto decision = leader.receive(1, full({ask("a", 2)}), 0ns);
  CHECK(decision.breach.text.find("was asked for twice at once, differently") != std::string::npos);
  CHECK(decision.broken_by == 1);
  CHECK(leader.receive(0, by_id({1}), 0ns).ready.size() == 1);
}

TEST_CASE("a member that changes sets where it is not possible, or before the last answer, is named") {
  requests change, faulty;
  change.change = set_change{set_change_kind::add, 0, {{0, 1}}};
  faulty.faults = {set_fault{7, "broke"}};
  negotiation one_set(members(2));
  for (const auto* message : {&change, &faulty}) {
    const auto decision = one_set.receive(1, *message, 0ns);
    CHECK(decision.breach);
    CHECK(decision.broken_by == 1);
  }
  auto options = members(2);
  options.keeps_sets = true;
  negotiation all_sets(options);
  CHECK(all_sets.receive(1, faulty, 0ns).breach.text.find("which has not started") != std::string::npos);
  REQUIRE(all_sets.receive(1, change, 0ns).empty());
  CHECK(all_sets.receive(1, change, 0ns).breach.text.find("before its last one was answered") !=
        std::string::npos);
  change.change->sets.push_back({0});
  CHECK(all_sets.receive(0, change, 0ns).breach.text.find("adds 2 process sets") != std::string::npos);
}

TEST_CASE("a change of process sets on which members disagree fails for all and changes nothing") {
  auto options = members(2);
  options.keeps_sets = true;
  negotiation leader(options);
  requests change;
  change.change = set_change{set_change_kind::add, 0, {{0, 1}}};
  REQUIRE(leader.receive(0, change, 0ns).empty());
  change.change->sets = {{0}};
  const auto decision = leader.receive(1, change, 0ns);
  REQUIRE(decision.failures.size() == 1);
  CHECK(decision.failures[0].name == set_change_name);
  CHECK_FALSE(decision.changed);
  CHECK(decision.sets.empty());
  requests same;
  same.change = set_change{set_change_kind::add, 0, {{0}}};
  REQUIRE(leader.receive(0, same, 0ns).empty());
  const auto done = leader.receive(1, same, 0ns);
  CHECK(done.changed);
  REQUIRE(done.sets.size() == 1);
  CHECK(done.sets[0].ranks == std::vector<std::int32_t>{0});
}

TEST_CASE("the rest of a message after a breach is not taken") {
  requests message;
  std::string part;
  auto join_by_name = ask("j");
  join_by_name.signature.operation = operation::join;
  SECTION("another request in full, and the member's departure") {
    message = full({join_by_name, ask("a")});
    message.leaves = departure{};
    part = "asks to join by name";
  }
  SECTION("a second fault") {
    message.faults = {set_fault{7, "first"}, set_fault{8, "second"}};
    part = "number 7";
  }
  auto options = members(2);
  options.keeps_sets = true;
  negotiation leader(options);
  REQUIRE(leader.receive(1, full({ask("a")}), 0ns).empty());
  REQUIRE(leader.receive(1, full({join_by_name}), 0ns).breach);
  const auto decision = leader.receive(0, message, 0ns);
  CHECK_THAT(decision.breach.text, Catch::Contains(part));
  CHECK(decision.broken_by == 0);
  CHECK(decision.ready.empty());
  CHECK_FALSE(decision.end);
  CHECK_FALSE(leader.ended());
}

TEST_CASE("a decision without a breach names no member") {
  negotiation leader(members(2));
  leader.receive(0, full({ask("a")}), 0ns);
  const auto decision = leader.receive(1, full({ask("a")}), 0ns);
  CHECK_FALSE(decision.breach);
  CHECK(decision.broken_by == -1);
}

TEST_CASE("leaving a cell that the id does not have changes nothing") {
  negotiation leader(members(2));
  leader.receive(0, full({ask("a")}), 0ns);
  leader.receive(1, full({ask("a")}), 0ns);
  requests left;
  left.left = {{1, 1}};
  CHECK(leader.receive(0, left, 0ns).empty());
  CHECK(leader.ids() == 1);
}

TEST_CASE("a repeated request counts once, and a different one for the same name breaks the protocol") {
  negotiation leader(members(3));
  leader.receive(1, full({ask("a"), ask("b"), ask("c", 3)}), 0ns);
  CHECK(leader.receive(1, full({ask("c", 3)}), 0ns).empty());
  leader.receive(0, full({ask("c", 4)}), 0ns);
  CHECK(leader.receive(0, full({ask("c", 4)}), 0ns).empty());
  CHECK(leader.receive(0, full({ask("c", 3)}), 0ns).breach);
}

TEST_CASE("the id of a gather is announced with the rows of the first member, in any order of requests") {
  negotiation leader(members(2));
  auto two = ask("g", 2), three = ask("g", 3);
  two.signature.operation = three.signature.operation = operation::allgather;
  leader.receive(1, full({three}), 0ns);
  const auto decision = leader.receive(0, full({two}), 0ns);
  REQUIRE(decision.assignments.size() == 1);
  CHECK(decision.assignments[0].signature.shape == shape{2});
}

TEST_CASE("a ready tensor states when it was first requested, and by which rank") {
  negotiation leader(members(3));
  leader.receive(2, full({ask("a")}), 5ns);
  leader.receive(0, full({ask("a")}), 7ns);
  const auto written = leader.receive(1, full({ask("a")}), 9ns);
  REQUIRE(written.ready.size() == 1);
  CHECK(written.ready[0].first_request == 5ns);
  CHECK(written.ready[0].first_rank == 2);
  leader.receive(1, by_id({1}), 20ns);
  leader.receive(2, by_id({1}), 21ns);
  const auto known = leader.receive(0, by_id({1}), 22ns);
  REQUIRE(known.ready.size() == 1);
  CHECK(known.ready[0].first_request == 20ns);
  CHECK(known.ready[0].first_rank == 1);
}
