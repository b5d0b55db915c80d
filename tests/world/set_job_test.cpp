// Jobs whose process sets start and end. A failing seed is printed; `world_test --seed S` plays it again.
#include "tests/world/set_job.hpp"

#include <catch2/catch.hpp>

#include "tests/world/seeds.hpp"

using namespace farandole::testing;

namespace {

set_report check(const set_options& options) {
  const auto report = run_sets(options);
  for (const auto& problem : report.problems)
    UNSCOPED_INFO(problem);
  CHECK(report.problems.empty());
  CHECK(report.ended_well > 0);
  return report;
}

} // namespace

TEST_CASE("process sets start and end while others work, and all members of a set run the same bundles") {
  std::uint64_t taken_down = 0;
  for (const auto seed : seeds(100))
    for (const std::int32_t members : {2, 5, 9}) {
      INFO("seed " << seed << ", " << members << " members");
      taken_down += check(set_options::drawn(seed, members)).taken_down;
    }
  if (seeds(100).size() > 1)
    CHECK(taken_down > 0);
}

TEST_CASE("24 members on eight hosts with relays run sets of every kind") {
  for (const auto seed : seeds(8)) {
    INFO("seed " << seed);
    auto options = set_options::drawn(seed, 24);
    options.host_ranks = 3;
    options.fan_in = 2;
    options.rounds = 8;
    check(options);
  }
}

TEST_CASE("the same seed plays the same job with sets, and another seed plays another job") {
  for (const auto seed : seeds(3)) {
    INFO("seed " << seed);
    const auto options = set_options::drawn(seed, 6);
    const auto first = run_sets(options), again = run_sets(options);
    CHECK(first.trace == again.trace);
    CHECK(first.sequence == again.sequence);
    CHECK(first.problems == again.problems);
    CHECK(run_sets(set_options::drawn(seed + 1000, 6)).trace != first.trace);
  }
}
