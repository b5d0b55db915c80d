#include "actors/launch/line_ends.hpp"

#include <catch2/catch.hpp>

using farandole::line_ends;

TEST_CASE("the ends of lines are found in their order, whichever character ends them", "[output]") {
  line_ends ends("a\nb\rc\r\nd");
  CHECK(ends.next(0) == 1);
  CHECK(ends.next(1) == 1);
  CHECK(ends.next(2) == 3);
  CHECK(ends.next(4) == 5);
  CHECK(ends.next(6) == 6);
  CHECK(ends.next(7) == std::string_view::npos);
}

TEST_CASE("bytes without an end of a line have none", "[output]") {
  CHECK(line_ends("").next(0) == std::string_view::npos);
  CHECK(line_ends("abc").next(2) == std::string_view::npos);
}
