#include "actors/launch/last_lines.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

TEST_CASE("the last lines of a stream are kept, even if its pieces cut lines", "[lines]") {
  last_lines kept;
  std::string stream;
  for (int number = 0; number < 100; ++number)
    stream += "line " + std::to_string(number) + (number % 2 ? "\r\n" : "\n\n");
  stream += "no end";
  for (std::size_t at = 0; at < stream.size(); at += 7)
    kept.take(std::string_view(stream).substr(at, 7));
  const auto lines = kept.lines();
  REQUIRE(lines.size() == last_lines::most_lines);
  CHECK(lines.front() == "line 91");
  CHECK(lines[8] == "line 99");
  CHECK(lines.back() == "no end");
}

TEST_CASE("a line of any length takes bounded memory", "[lines]") {
  last_lines kept;
  for (int i = 0; i < 1000; ++i)
    kept.take(std::string(1000, 'x'));
  kept.take("\nnext");
  REQUIRE(kept.lines().size() == 2);
  CHECK(kept.lines().front() == std::string(last_lines::longest_line, 'x'));
  CHECK(kept.lines().back() == "next");
}
