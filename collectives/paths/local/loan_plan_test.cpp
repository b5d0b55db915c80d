#include "collectives/paths/local/loan_plan.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

work gathering(std::vector<std::size_t> gathered, std::size_t parts) {
  work bundle;
  bundle.operation = operation::allgather;
  bundle.gathered = std::move(gathered);
  bundle.parts.resize(parts);
  return bundle;
}

work exchanging(std::vector<std::size_t> sent, std::vector<std::size_t> received, std::size_t parts) {
  work bundle;
  bundle.operation = operation::alltoall;
  bundle.sent = std::move(sent);
  bundle.received = std::move(received);
  for (auto each : bundle.sent)
    bundle.longest = std::max(bundle.longest, each);
  bundle.parts.resize(parts);
  return bundle;
}

constexpr std::size_t much_room = 4096;

} // namespace

TEST_CASE("what a member has for another decides whether a bundle goes past the window") {
  // Two parts of two members: 30 bytes of member 0, 60 of member 1.
  const work gathers = gathering({10, 40, 20, 20}, 2);
  CHECK(worth_lending(gathers, 2, 60, much_room));
  CHECK_FALSE(worth_lending(gathers, 2, 61, much_room));
  CHECK_FALSE(worth_lending(gathers, 2, 0, much_room));

  work swaps = exchanging({5, 6}, {5, 9}, 1);
  swaps.longest = 9; // somebody else sends more
  CHECK(worth_lending(swaps, 2, 9, much_room));
  CHECK_FALSE(worth_lending(swaps, 2, 10, much_room));
}

TEST_CASE("the addresses must have room: one for each part, in an alltoall for each member as well") {
  const work gathers = gathering({100, 100, 100, 100}, 2);
  CHECK(worth_lending(gathers, 2, 1, 2 * 8));
  CHECK_FALSE(worth_lending(gathers, 2, 1, 2 * 8 - 1));
  const work swaps = exchanging({1, 1, 1, 1}, {1, 1, 1, 1}, 2);
  CHECK(worth_lending(swaps, 2, 1, 4 * 8));
  CHECK_FALSE(worth_lending(swaps, 2, 1, 4 * 8 - 1));
}

TEST_CASE("who is alone, brings nothing, or needs arithmetic lends nothing") {
  CHECK_FALSE(worth_lending(gathering({100}, 1), 1, 1, much_room));
  CHECK_FALSE(worth_lending(gathering({}, 0), 2, 1, much_room));
  work reduces = exchanging({100, 100}, {}, 1);
  for (auto kind :
       {operation::allreduce, operation::reducescatter, operation::broadcast, operation::barrier}) {
    reduces.operation = kind;
    CHECK_FALSE(worth_lending(reduces, 2, 1, much_room));
  }
}

TEST_CASE("in an allgather a member lends each part and takes from the next member on what is not empty") {
  std::byte inputs[2][8], outputs[2][32];
  work bundle = gathering({4, 8, 2, 0, 6, 3}, 2); // three members
  for (std::size_t at = 0; at < 2; ++at)
    bundle.parts[at] = {inputs[at], outputs[at], bundle.gathered[at * 3 + 1], {}};
  const auto plan = plan_loans(bundle, 1, 3);
  CHECK_FALSE(plan.in_the_way);
  REQUIRE(plan.lends.size() == 2);
  CHECK((plan.lends[0].from == inputs[0] && plan.lends[0].bytes == 8));
  CHECK((plan.lends[1].from == inputs[1] && plan.lends[1].bytes == 6));
  REQUIRE(plan.keeps.size() == 2);
  CHECK((plan.keeps[0].from == inputs[0] && plan.keeps[0].to == outputs[0] + 4 && plan.keeps[0].bytes == 8));
  CHECK((plan.keeps[1].to == outputs[1] && plan.keeps[1].bytes == 6));
  REQUIRE(plan.takes.size() == 3);
  const auto takes = [&](std::size_t i, std::uint32_t member, std::size_t index, std::byte* to,
                         std::size_t bytes) {
    const auto& each = plan.takes[i];
    return each.member == member && each.index == index && each.to == to && each.bytes == bytes;
  };
  CHECK(takes(0, 2, 0, outputs[0] + 12, 2));
  CHECK(takes(1, 2, 1, outputs[1] + 6, 3));
  CHECK(takes(2, 0, 0, outputs[0], 4)); // and nothing of part 1
}

TEST_CASE("an input at its place in the output is lent there; one elsewhere in it is in the way") {
  std::byte memory[30];
  work bundle = gathering({10, 20}, 1);
  bundle.parts[0] = {memory + 10, memory, 20, {}};
  const auto at_home = plan_loans(bundle, 1, 2);
  CHECK_FALSE(at_home.in_the_way);
  CHECK(at_home.keeps[0].from == at_home.keeps[0].to);
  bundle.parts[0].input = memory;
  CHECK(plan_loans(bundle, 1, 2).in_the_way);
}

TEST_CASE("in an alltoall a member lends each segment and takes the one that is meant for it") {
  std::byte input[9], output[12];
  work bundle = exchanging({2, 3, 4}, {5, 3, 4}, 1);
  bundle.parts[0] = {input, output, 9, {}};
  const auto plan = plan_loans(bundle, 1, 3);
  REQUIRE(plan.lends.size() == 3);
  CHECK((plan.lends[2].from == input + 5 && plan.lends[2].bytes == 4));
  REQUIRE(plan.keeps.size() == 1);
  CHECK((plan.keeps[0].from == input + 2 && plan.keeps[0].to == output + 5 && plan.keeps[0].bytes == 3));
  REQUIRE(plan.takes.size() == 2);
  CHECK((plan.takes[0].member == 2 && plan.takes[0].index == 1 && plan.takes[0].to == output + 8));
  CHECK((plan.takes[1].member == 0 && plan.takes[1].index == 1 && plan.takes[1].to == output));
}
