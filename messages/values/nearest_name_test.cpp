#include "messages/values/nearest_name.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

TEST_CASE("the edit distance counts insertions, deletions, replacements and swapped neighbours",
          "[nearest name]") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("torch", "torch") == 0);
  CHECK(edit_distance("treshold", "threshold") == 1);
  CHECK(edit_distance("veerbose", "verbose") == 1);
  CHECK(edit_distance("hosts", "costs") == 1);
  CHECK(edit_distance("hsots", "hosts") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("a mistyped name gets the nearest known one, and an unlike name gets none", "[nearest name]") {
  constexpr std::string_view names[] = {"--hosts", "--hostfile", "--fusion-threshold-mb", "--verbose"};
  CHECK(nearest_name("--host", names) == "--hosts");
  CHECK(nearest_name("--fusion-treshold", names) == "--fusion-threshold-mb");
  CHECK(nearest_name("--frobnicate", names).empty());
  CHECK(nearest_name("", names).empty());
  CHECK(nearest_name(std::string(100000, 'x'), names).empty());
  CHECK(nearest_name("--hosts", {}).empty());
  CHECK(did_you_mean("--vrebose", names) == "; did you mean '--verbose'?");
  CHECK(did_you_mean("--frobnicate", names).empty());
}
