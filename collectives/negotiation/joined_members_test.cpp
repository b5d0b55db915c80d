#include "collectives/negotiation/joined_members.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

TEST_CASE("a member joins only once until the joined members are cleared") {
  joined_members joined(70);
  CHECK(joined.none());
  CHECK(joined.add(66));
  CHECK_FALSE(joined.add(66));
  CHECK(joined.add(3));
  CHECK(joined.count() == 2);
  CHECK_FALSE(joined.none());
  CHECK(joined.has(66));
  CHECK_FALSE(joined.has(2));
  CHECK(joined.words()[0] == 8);
  CHECK(joined.words()[1] == 4);
  joined.clear();
  CHECK(joined.none());
  CHECK_FALSE(joined.has(66));
  CHECK(joined.add(66));
}
