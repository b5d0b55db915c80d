#include "collectives/paths/local/loan_plan.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

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

TEST_CASE("what any member has for another decides whether an alltoall goes past the window") {
  work swaps = exchanging({5, 6}, {5, 9}, 1);
  swaps.longest = 9; // somebody else sends more
  CHECK(worth_lending(swaps, 2, 9, much_room));
  CHECK_FALSE(worth_lending(swaps, 2, 10, much_room));
  CHECK_FALSE(worth_lending(swaps, 2, 0, much_room));
}

TEST_CASE("the addresses must have room, one for each part and member") {
  const work swaps = exchanging({1, 1, 1, 1}, {1, 1, 1, 1}, 2);
  CHECK(worth_lending(swaps, 2, 1, 4 * 8));
  CHECK_FALSE(worth_lending(swaps, 2, 1, 4 * 8 - 1));
}

TEST_CASE("who is alone, and what is read by many or needs arithmetic, is not lent") {
  CHECK_FALSE(worth_lending(exchanging({100}, {100}, 1), 1, 1, much_room));
  work other = exchanging({100, 100}, {100, 100}, 1);
  for (auto kind : {operation::allreduce, operation::reducescatter, operation::allgather,
                    operation::broadcast, operation::barrier}) {
    other.operation = kind;
    CHECK_FALSE(worth_lending(other, 2, 1, much_room));
  }
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
