#include "collectives/plan/set_gate.hpp"

#include <catch2/catch.hpp>

#include "messages/negotiation.hpp"

using namespace farandole;

namespace {

using answer = set_gate::answer;

envelope message(std::uint32_t set, std::int32_t source) {
  requests body;
  body.ids = {1};
  return encode({1, set, source}, body);
}

std::vector<std::int32_t> sources(const std::vector<envelope>& messages) {
  std::vector<std::int32_t> result;
  for (const auto& one : messages)
    result.push_back(one.source());
  return result;
}

} // namespace

TEST_CASE("what comes before its set has started waits, and comes out in order") {
  set_gate gate;
  CHECK(gate.enter(0).empty());
  CHECK(*gate.offer(message(0, 1)) == answer::pass);
  for (auto [set, source] : {std::pair{1, 10}, {2, 11}, {1, 12}})
    CHECK(*gate.offer(message(static_cast<std::uint32_t>(set), source)) == answer::held);
  CHECK(sources(gate.enter(1)) == std::vector<std::int32_t>{10, 12});
  CHECK(*gate.offer(message(1, 10)) == answer::pass);
  CHECK(gate.held() == 1);
  CHECK(sources(gate.enter(2)) == std::vector<std::int32_t>{11});
  CHECK(gate.held() == 0);
}

TEST_CASE("what comes after its set has ended is dropped") {
  set_gate gate;
  gate.enter(0);
  gate.enter(1);
  gate.leave(1);
  CHECK(*gate.offer(message(1, 3)) == answer::drop);
  CHECK(*gate.offer(message(2, 3)) == answer::held);
  // A set that does not concern this member passes unseen.
  gate.enter(3);
  CHECK(gate.held() == 0);
  CHECK(*gate.offer(message(2, 3)) == answer::drop);
  CHECK(*gate.offer(message(0, 3)) == answer::pass);
}

TEST_CASE("too much that comes before its set is refused, and what was held stays") {
  const auto one = message(1, 0).bytes().size();
  set_gate by_count({2, 1000 * one});
  set_gate by_bytes({1000, 2 * one});
  for (auto* gate : {&by_count, &by_bytes}) {
    CHECK(gate->offer(message(1, 1)));
    CHECK(gate->offer(message(1, 2)));
    const auto third = gate->offer(message(1, 3));
    REQUIRE(!third);
    CHECK(third.error().kind == error_kind::overloaded);
    CHECK(sources(gate->enter(1)) == std::vector<std::int32_t>{1, 2});
    CHECK(gate->offer(message(2, 1)));
  }
}

TEST_CASE("what comes before any set has started waits, also for number 0") {
  set_gate gate;
  CHECK(*gate.offer(message(0, 1)) == answer::held);
  CHECK(sources(gate.enter(0)) == std::vector<std::int32_t>{1});
}

TEST_CASE("what is for a set below the greatest that has started is late, in whatever order they start") {
  set_gate gate;
  gate.enter(5);
  gate.enter(3);
  CHECK(*gate.offer(message(4, 1)) == answer::drop);
  CHECK(*gate.offer(message(5, 1)) == answer::pass);
  CHECK(*gate.offer(message(6, 1)) == answer::held);
}
