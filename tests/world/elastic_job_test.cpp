// Elastic jobs under faults. For a failing seed the test prints the shortest prefix of its faults with which
// it fails, and a transcript; `world_test "elastic*" --seed S` plays it again.
#include "tests/world/elastic_job.hpp"

#include <catch2/catch.hpp>

#include "tests/world/seeds.hpp"

using namespace farandole::testing;

namespace {

/// The problems of this seed; empty if there are none.
std::string problems_of(std::uint64_t seed) {
  const auto options = elastic_options::drawn(seed);
  const auto first = run_elastic(options);
  std::string all;
  for (const auto& problem : first.problems)
    all += problem + "\n";
  if (!all.empty())
    return all + story_of(options);
  const auto again = run_elastic(options);
  if (first.trace != again.trace || first.sequence != again.sequence || first.messages != again.messages)
    return "the same seed gave two different jobs\n";
  return {};
}

} // namespace

TEST_CASE("elastic jobs keep all rules and end under random faults, and a seed always plays the same job") {
  const auto wrong = play_all("elastic jobs keep*", seeds(500), problems_of);
  for (const auto& [seed, text] : wrong)
    FAIL_CHECK("seed " << seed << ": " << text);
  CHECK(wrong.empty());
}

// These seeds showed defects in the past. They give the same jobs while the drawing of options stays the
// same.
TEST_CASE("elastic jobs with seeds that failed before keep all rules") {
  const std::uint64_t seed =
      GENERATE(700018979, 810035424, 1000123186, 1000161600, 1000207741, 1000311894, 1000552632, 1000997534);
  INFO("seed " << seed);
  CHECK(problems_of(seed).empty());
}

TEST_CASE("different seeds play different elastic jobs") {
  for (const auto seed : seeds(20)) {
    INFO("seed " << seed);
    CHECK(run_elastic(elastic_options::drawn(seed)).trace !=
          run_elastic(elastic_options::drawn(seed + 10000)).trace);
  }
}
