// Elastic jobs under faults. A failing seed is told with the fewest of its faults that make it fail and a
// transcript; `world_test "elastic*" --seed S` plays it again.
#include "tests/world/elastic_job.hpp"

#include <catch2/catch.hpp>

#include "tests/world/seeds.hpp"

using namespace farandole::testing;

TEST_CASE("elastic jobs keep their rules and come to an end, whatever happens to them") {
  std::uint64_t generations = 0;
  for (const auto seed : seeds(2000)) {
    INFO("seed " << seed);
    const auto options = elastic_options::drawn(seed);
    const auto report = run_elastic(options);
    if (!report.problems.empty()) {
      std::string all;
      for (const auto& one : report.problems)
        all += one + "\n";
      FAIL_CHECK(all << story_of(options));
    }
    generations += report.generations;
  }
  CHECK(generations > 0);
}

TEST_CASE("the same seed plays the same elastic job, another seed another one") {
  for (const auto seed : seeds(50)) {
    INFO("seed " << seed);
    const auto options = elastic_options::drawn(seed);
    const auto first = run_elastic(options), again = run_elastic(options);
    CHECK(first.trace == again.trace);
    CHECK(first.sequence == again.sequence);
    CHECK(first.problems == again.problems);
    CHECK(run_elastic(elastic_options::drawn(seed + 10000)).trace != first.trace);
  }
}
