#include "collectives/negotiation/message_gate.hpp"

#include <catch2/catch.hpp>

#include "messages/wire/negotiation.hpp"

using namespace farandole;

namespace {

using answer = message_gate::answer;

struct origin {
  std::uint64_t generation = 1;
  std::uint32_t set = 0;
  std::int32_t source = 0;
};

envelope message(const origin& from) {
  return encode({from.generation, from.set, from.source}, requests{{1}, {}, {}, false, {}, {}});
}

std::vector<std::int32_t> sources(const std::vector<envelope>& messages) {
  std::vector<std::int32_t> result;
  for (const auto& message : messages)
    result.push_back(message.source());
  return result;
}

message_gate in_generation(std::uint64_t generation, const message_gate::bounds& bounds = {}) {
  message_gate gate(bounds);
  CHECK(gate.enter_generation(generation).empty());
  CHECK(gate.enter_set(0).empty());
  return gate;
}

} // namespace

TEST_CASE("messages of an older generation are dropped and current ones pass") {
  message_gate before;
  CHECK(*before.offer(message({.generation = 0})) == answer::drop);
  auto gate = in_generation(3);
  CHECK(*gate.offer(message({.generation = 2})) == answer::drop);
  CHECK(*gate.offer(message({.generation = 3})) == answer::pass);
  CHECK(*gate.offer(message({.generation = 0})) == answer::drop);
  CHECK(gate.held() == 0);
}

TEST_CASE("messages of a later generation are held until it is entered, and come out in order") {
  message_gate gate;
  for (auto [generation, source] : {std::pair{2, 10}, {1, 11}, {2, 12}, {4, 13}, {2, 14}})
    CHECK(*gate.offer(message({static_cast<std::uint64_t>(generation), 0, source})) == answer::held);
  CHECK(sources(gate.enter_generation(2)) == std::vector<std::int32_t>{10, 12, 14});
  CHECK(gate.held() == 1);
  CHECK(gate.enter_set(0).empty());
  CHECK(gate.held() == 1);
  CHECK(gate.enter_generation(3).empty());
  CHECK(sources(gate.enter_generation(4)) == std::vector<std::int32_t>{13});
  CHECK(gate.held() == 0);
}

TEST_CASE("messages for a set that has not started are held until it starts, and come out in order") {
  auto gate = in_generation(1);
  CHECK(*gate.offer(message({})) == answer::pass);
  for (auto [set, source] : {std::pair{1, 10}, {2, 11}, {1, 12}})
    CHECK(*gate.offer(message({1, static_cast<std::uint32_t>(set), source})) == answer::held);
  CHECK(sources(gate.enter_set(1)) == std::vector<std::int32_t>{10, 12});
  CHECK(*gate.offer(message({.set = 1})) == answer::pass);
  CHECK(gate.held() == 1);
  CHECK(sources(gate.enter_set(2)) == std::vector<std::int32_t>{11});
  CHECK(gate.held() == 0);
}

TEST_CASE("a message that is early for its generation and for its set waits for both") {
  message_gate gate;
  const auto early = message({.generation = 2, .set = 1, .source = 7});
  CHECK(*gate.offer(early) == answer::held);
  CHECK(sources(gate.enter_generation(2)) == std::vector<std::int32_t>{7});
  CHECK(gate.enter_set(0).empty());
  CHECK(*gate.offer(early) == answer::held);
  CHECK(sources(gate.enter_set(1)) == std::vector<std::int32_t>{7});
}

TEST_CASE("messages for a set that has ended are dropped") {
  auto gate = in_generation(1);
  gate.enter_set(1);
  gate.leave_set(1);
  CHECK(*gate.offer(message({.set = 1})) == answer::drop);
  CHECK(*gate.offer(message({.set = 2})) == answer::held);
  // The held message was for a set that does not concern this member: it is dropped.
  gate.enter_set(3);
  CHECK(gate.held() == 0);
  CHECK(*gate.offer(message({.set = 2})) == answer::drop);
  CHECK(*gate.offer(message({})) == answer::pass);
}

TEST_CASE("entering a new generation forgets the sets of the old one") {
  auto gate = in_generation(1);
  gate.enter_set(3);
  gate.enter_generation(2);
  CHECK(*gate.offer(message({.generation = 2})) == answer::held);
  CHECK(*gate.offer(message({.generation = 2, .set = 3})) == answer::held);
  CHECK(gate.enter_set(0).size() == 1);
  CHECK(*gate.offer(message({.generation = 2, .set = 2})) == answer::held);
}

TEST_CASE("messages for set 0 are held until set 0 has started") {
  message_gate gate;
  gate.enter_generation(1);
  CHECK(*gate.offer(message({.source = 1})) == answer::held);
  CHECK(sources(gate.enter_set(0)) == std::vector<std::int32_t>{1});
}

TEST_CASE("a message for a set below the greatest started number is dropped, in any order of starts") {
  auto gate = in_generation(1);
  gate.enter_set(5);
  gate.enter_set(3);
  CHECK(*gate.offer(message({.set = 4})) == answer::drop);
  CHECK(*gate.offer(message({.set = 5})) == answer::pass);
  CHECK(*gate.offer(message({.set = 6})) == answer::held);
}

TEST_CASE("early messages beyond the bounds are refused, and the held ones stay") {
  const auto size_type = message({}).bytes().size();
  for (const message_gate::bounds bounds :
       {message_gate::bounds{2, 1000 * size_type}, {1000, 2 * size_type}}) {
    message_gate gate(bounds);
    CHECK(gate.offer(message({.source = 1})));
    CHECK(gate.offer(message({.source = 2})));
    const auto third = gate.offer(message({.source = 3}));
    REQUIRE(!third);
    CHECK(third.error().kind == error_kind::overloaded);
    CHECK(third.error().text.find("a message of generation 1 from rank 3 while in generation 0 would be "
                                  "number 3 of at most") != std::string::npos);
    CHECK(sources(gate.enter_generation(1)) == std::vector<std::int32_t>{1, 2});
    // The bounds count the messages held now, for a set or for a generation.
    CHECK(gate.offer(message({.set = 2})));
    CHECK(gate.offer(message({.generation = 2})));
    const auto another = gate.offer(message({.set = 1, .source = 3}));
    REQUIRE(!another);
    CHECK(another.error().text.find("a message for process set number 1 from rank 3, which has not started "
                                    "here, would be number 3 of at most") != std::string::npos);
    CHECK(gate.enter_set(2).size() == 1);
    CHECK(gate.offer(message({.set = 3})));
  }
}
