#include "tools/farandole/cli/shell_words.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

using words = std::vector<std::string>;

words split(std::string_view text) {
  const auto parts = split_shell_words(text);
  INFO(text);
  REQUIRE(parts);
  return *parts;
}

} // namespace

TEST_CASE("a text is split at blanks that are neither quoted nor escaped") {
  CHECK(split("").empty());
  CHECK(split(" \t\n").empty());
  CHECK(split(" -mca  btl tcp\n") == words{"-mca", "btl", "tcp"});
  CHECK(split("a'b c'd \"e f\" g\\ h ''") == words{"ab cd", "e f", "g h", ""});
  CHECK(split("'a\\' \"b\\\"\\\\\\$\\n'\" \\'c \\") == words{"a\\", "b\"\\$\\n'", "'c", "\\"});
  CHECK(split("$HOME * ~ `id`") == words{"$HOME", "*", "~", "`id`"});
}

TEST_CASE("a quote that is not closed is refused") {
  for (const auto* text : {"'a", "a\"b c", "'", "\"a\\\"", "'a''b"}) {
    INFO(text);
    const auto parts = split_shell_words(text);
    REQUIRE_FALSE(parts);
    CHECK(parts.error().kind == error_kind::invalid_argument);
  }
  CHECK_THAT(split_shell_words("a 'b").error().text, Catch::Contains("the quote ' is not closed"));
}

TEST_CASE("a shell line quotes the words that the shell would change, and splits into the same words") {
  CHECK(shell_line(words{"mpirun", "-mca", "btl", "^openib", "a b", "it's", "", "$x"}) ==
        "mpirun -mca btl ^openib 'a b' 'it'\\''s' '' '$x'");
  CHECK(shell_line(words{"A=b", "A=b"}) == "'A=b' A=b");
  for (const auto& list :
       {words{}, words{"a"}, words{""}, words{"'", "\"", "\\", "a\nb", " ", "*?[]~#&;|<>(){}!$`"}})
    CHECK(split(shell_line(list)) == list);
}
