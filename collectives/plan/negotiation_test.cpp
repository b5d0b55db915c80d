// What the transcripts cannot say well: many members, long lives, and things that must not be mixed up.
#include "collectives/plan/negotiation.hpp"

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
  request what;
  what.name = std::move(name);
  what.signature.shape = {elements};
  return what;
}

requests full(std::vector<request> what) {
  requests message;
  message.full = std::move(what);
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

TEST_CASE("one among a thousand that disagrees is named") {
  constexpr std::int32_t count = 1000;
  negotiation leader(members(count));
  for (std::int32_t rank = count - 1; rank > 0; --rank)
    REQUIRE(leader.receive(rank, full({ask("a", rank == 517 ? 4 : 3)}), 0ns).empty());
  const auto out = leader.receive(0, full({ask("a", 3)}), 0ns);
  REQUIRE(out.failures.size() == 1);
  CHECK(out.failures[0].reason.text.find("rank 0 has [3], rank 517 has [4]") != std::string::npos);
  CHECK(leader.ids() == 0);
}

TEST_CASE("unnamed tensors that come once do not grow the leader's memory") {
  auto options = members(2);
  options.cache_capacity = 4;
  negotiation leader(options);
  std::size_t forgotten = 0;
  for (int step = 0; step < 3000; ++step) {
    const auto name = "allreduce.noname." + std::to_string(step);
    leader.receive(0, full({ask(name)}), 0ns);
    const auto out = leader.receive(1, full({ask(name)}), 0ns);
    REQUIRE(out.ready.size() == 1);
    forgotten += out.forget.size();
  }
  CHECK(leader.ids() == 4);
  CHECK(forgotten == 2996);
}

TEST_CASE("what is scheduled in a step is not forgotten in it") {
  auto options = members(1);
  options.cache_capacity = 2;
  negotiation leader(options);
  const auto out = leader.receive(0, full({ask("a"), ask("b"), ask("c")}), 0ns);
  CHECK(out.forget.empty());
  REQUIRE(out.ready.size() == 3);
  CHECK(out.ready[2].name() == "c");
  CHECK(out.ready[2].id == 0);
}

TEST_CASE("who waits under an id that is forgotten is asked, once, and waits on") {
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

TEST_CASE("rows of all ranks that cannot be counted together fail") {
  const auto what = GENERATE(operation::allgather, operation::alltoall);
  negotiation leader(members(2));
  auto huge = ask("g", std::int64_t{1} << 60);
  huge.signature.operation = what;
  huge.signature.dtype = dtype::uint8;
  huge.signature.shape.push_back(4);
  leader.receive(0, full({huge}), 0ns);
  const auto out = leader.receive(1, full({huge}), 0ns);
  REQUIRE(out.failures.size() == 1);
  CHECK(out.failures[0].reason.kind == error_kind::precondition);
}

TEST_CASE("after the end nothing is decided any more") {
  negotiation leader(members(1));
  requests last;
  last.leaves = departure{};
  CHECK(leader.receive(0, last, 0ns).end);
  CHECK(leader.ended());
  CHECK(leader.receive(0, full({ask("a")}), 0ns).empty());
}

TEST_CASE("a process set that fails on a member is answered to all, in the global set alone") {
  auto options = members(2);
  options.keeps_sets = true;
  negotiation leader(options);
  requests change, fault;
  change.change = set_change{set_change_kind::found, 0, {{1}}};
  fault.faults = {{1, "it broke"}};
  REQUIRE(leader.receive(0, change, 0ns).empty());
  REQUIRE(leader.receive(1, change, 0ns).sets.size() == 1);
  CHECK(leader.receive(1, fault, 0ns).restarts ==
        std::vector<set_restart>{{1, set_event{2, 1, false, {1}}, "on rank 1: it broke"}});

  negotiation other(members(2));
  const auto out = other.receive(1, fault, 0ns);
  CHECK(out.breach);
  CHECK(out.broken_by == 1);
  CHECK(out.restarts.empty());
}

TEST_CASE("rows without elements that a schedule cannot carry fail instead of becoming ready") {
  negotiation leader(members(2));
  auto gathers = ask("a");
  gathers.signature.operation = operation::allgather;
  // Each request is sound; together they hold 2^61 rows, one more than a member reads of float32.
  gathers.signature.shape = {std::int64_t{1} << 60, 0};
  REQUIRE(decode_requests(encode(address{1, 0, 0}, full({gathers}))));
  leader.receive(0, full({gathers}), 0ns);
  const auto decided = leader.receive(1, full({gathers}), 0ns);
  CHECK(decided.ready.empty());
  REQUIRE(decided.failures.size() == 1);
  CHECK(decided.failures[0].reason.text.find("hold more than can be counted") != std::string::npos);
}
