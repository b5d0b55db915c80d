#include "collectives/plan/generation_gate.hpp"

#include <catch2/catch.hpp>

#include "messages/negotiation.hpp"

using namespace farandole;

namespace {

using answer = generation_gate::answer;

envelope message(std::uint64_t generation, std::int32_t source) {
  return encode({generation, 0, source}, requests{{1}, {}, {}, false, {}, {}});
}

std::vector<std::int32_t> sources(const std::vector<envelope>& messages) {
  std::vector<std::int32_t> result;
  for (const auto& one : messages)
    result.push_back(one.source());
  return result;
}

} // namespace

TEST_CASE("a stale message is dropped and a current one passes") {
  generation_gate gate;
  CHECK(*gate.offer(message(0, 1)) == answer::drop);
  gate.enter(3);
  CHECK(*gate.offer(message(2, 1)) == answer::drop);
  CHECK(*gate.offer(message(3, 1)) == answer::pass);
  CHECK(*gate.offer(message(0, 1)) == answer::drop);
  CHECK(gate.held() == 0);
}

TEST_CASE("what comes early is held until its generation is entered, and comes out in order") {
  generation_gate gate;
  for (auto [generation, source] : {std::pair{2, 10}, {1, 11}, {2, 12}, {4, 13}, {2, 14}})
    CHECK(*gate.offer(message(static_cast<std::uint64_t>(generation), source)) == answer::held);
  CHECK(sources(gate.enter(2)) == std::vector<std::int32_t>{10, 12, 14});
  CHECK(gate.held() == 1);
  CHECK(gate.current() == 2);
  CHECK(sources(gate.enter(3)).empty());
  CHECK(sources(gate.enter(4)) == std::vector<std::int32_t>{13});
  CHECK(gate.held() == 0);
}

TEST_CASE("too much that comes early is refused, and what was held stays") {
  const auto one = message(1, 0).bytes().size();
  generation_gate by_count({2, 1000 * one});
  generation_gate by_bytes({1000, 2 * one});
  for (auto* gate : {&by_count, &by_bytes}) {
    CHECK(gate->offer(message(1, 1)));
    CHECK(gate->offer(message(1, 2)));
    const auto third = gate->offer(message(1, 3));
    REQUIRE(!third);
    CHECK(third.error().kind == error_kind::overloaded);
    CHECK(sources(gate->enter(1)) == std::vector<std::int32_t>{1, 2});
    // The bounds count what is held now.
    CHECK(gate->offer(message(2, 1)));
    CHECK(gate->offer(message(2, 2)));
  }
}
