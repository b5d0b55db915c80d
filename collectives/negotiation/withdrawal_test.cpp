#include "collectives/negotiation/withdrawal.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

request ask(std::int64_t extent) {
  request asked;
  asked.signature.shape = {extent};
  return asked;
}

} // namespace

TEST_CASE("of each member's early requests for a withdrawn tensor the first is kept") {
  withdrawal taken_back(7);
  CHECK(taken_back.rank() == 7);
  taken_back.keep_early(1, ask(1));
  taken_back.keep_early(0, ask(2));
  taken_back.keep_early(1, ask(3));
  const auto early = taken_back.take_early();
  REQUIRE(early.size() == 2);
  CHECK(early[0].first == 1);
  CHECK(early[0].second.signature.shape == shape{1});
  CHECK(early[1].first == 0);
  CHECK(taken_back.take_early().empty());
}

TEST_CASE("a member takes its own early request back, and no other one") {
  withdrawal taken_back(7);
  taken_back.keep_early(1, ask(1));
  taken_back.keep_early(0, ask(2));
  CHECK(taken_back.drop_early(1));
  CHECK_FALSE(taken_back.drop_early(1));
  CHECK_FALSE(taken_back.drop_early(2));
  taken_back.keep_early(1, ask(3));
  const auto early = taken_back.take_early();
  REQUIRE(early.size() == 2);
  CHECK(early[0].first == 0);
  CHECK(early[1].first == 1);
  CHECK(early[1].second.signature.shape == shape{3});
}
