#include "collectives/negotiation/member_ranks.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

TEST_CASE("positions and ranks translate both ways for ranks in any order") {
  const member_ranks members({7, 2, 5});
  CHECK(members.count() == 3);
  CHECK(members.rank_of(0) == 7);
  CHECK(members.rank_of(2) == 5);
  CHECK(members.member_of(2) == 1);
  CHECK(members.member_of(5) == 2);
  CHECK_FALSE(members.member_of(0));
}
