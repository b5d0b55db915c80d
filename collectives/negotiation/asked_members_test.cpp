#include "collectives/negotiation/asked_members.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

TEST_CASE("has and has_any answer for each row whether one or many members have requested it") {
  asked_members asked(70);
  asked.add_row();
  asked.add_row();
  asked.add(1, 66);
  CHECK(asked.has(1, 66));
  CHECK_FALSE(asked.has(0, 66));
  CHECK_FALSE(asked.has(1, 2));
  member_mask members(70);
  members.add(2);
  CHECK_FALSE(asked.has_any(1, members));
  members.add(66);
  CHECK(asked.has_any(1, members));
  CHECK_FALSE(asked.has_any(0, members));
}

TEST_CASE("many members are added to a row at once, and clearing a row leaves the others") {
  asked_members asked(70);
  asked.add_row();
  asked.add_row();
  member_mask members(70);
  members.add(2);
  members.add(69);
  asked.add(0, members);
  asked.add(1, members);
  asked.clear(0);
  CHECK_FALSE(asked.has_any(0, members));
  CHECK(asked.has(1, 2));
  CHECK(asked.has(1, 69));
  CHECK_FALSE(asked.has(1, 3));
}
