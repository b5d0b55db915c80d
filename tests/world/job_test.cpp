// Many whole jobs. A failing seed is printed; `world_test --seed S` plays it again.
#include "tests/world/job.hpp"

#include <catch2/catch.hpp>

#include "tests/world/seeds.hpp"

using namespace farandole::testing;

namespace {

void check(const job_report& report) {
  for (const auto& problem : report.problems)
    UNSCOPED_INFO(problem);
  CHECK(report.problems.empty());
  CHECK(report.ended_well > 0);
}

/// A job without faults, whose cache has room for every id.
job_options peaceful(std::int32_t members) {
  job_options options;
  options.members = members;
  options.mismatches = options.withdrawals = options.changes = 0;
  return options;
}

/// A job of this many ranks, 8 on each host, that reduces 161 tensors in every step.
job_options training(std::int32_t steps, std::int32_t ranks = 512) {
  auto options = peaceful(ranks);
  options.host_ranks = 8;
  options.tensors = 161;
  options.full_steps = steps;
  options.joins = false;
  options.only_sums = true;
  options.grouped = 0;
  return options;
}

void few_messages_with_buckets(std::int32_t ranks) {
  auto options = training(6, ranks);
  options.at_once = 10;
  options.between_us = 3000;
  options.in_order = true;
  options.fusion_threshold = std::size_t{128} << 20;
  const auto report = run_job(options);
  check(report);
  CHECK(report.sent.planned == options.buckets);
  CHECK(report.sent.dissolved == 0);
  REQUIRE(report.warm.steps == 3);
  // Each of 9 relays requests these buckets in every step.
  CHECK(report.warm.to_leader.messages <= 3 * 9 * options.buckets);
  CHECK(report.warm.from_leader.messages <= 3 * 9 * options.buckets);
  options.buckets = 0;
  const auto without = run_job(options);
  check(without);
  CHECK(without.sent.planned == 0);
  CHECK(report.warm.lasted < without.warm.lasted * 5 / 4);
}

void many_workers(std::int32_t workers, std::int32_t host_ranks) {
  for (const auto seed : seeds(1)) {
    INFO("seed " << seed);
    auto options = job_options::drawn(seed, workers);
    options.full_steps = 2;
    options.host_ranks = host_ranks;
    check(run_job(options));
  }
}

} // namespace

TEST_CASE("every worker runs the same bundles under random networks, orders and faults") {
  for (const auto seed : seeds(80)) {
    INFO("seed " << seed);
    check(run_job(job_options::drawn(seed, 20)));
  }
}

TEST_CASE("every worker of a small set runs the same bundles") {
  for (const auto seed : seeds(24))
    for (const std::int32_t members : {1, 2, 3}) {
      INFO("seed " << seed << ", " << members << " members");
      check(run_job(job_options::drawn(seed, members)));
    }
}

TEST_CASE("a thousand workers run the same bundles of 200 tensors") {
  many_workers(1000, 0);
}

TEST_CASE("every worker runs the same bundles with relays in trees of various depths") {
  for (const auto seed : seeds(24)) {
    INFO("seed " << seed);
    auto options = job_options::drawn(seed, 20);
    options.host_ranks = static_cast<std::int32_t>(1 + seed % 7);
    options.fan_in = 1 + seed % 3;
    check(run_job(options));
  }
}

TEST_CASE("every worker runs the same bundles with learned buckets and later faults") {
  std::uint64_t asked = 0, dissolved = 0;
  for (const auto seed : seeds(24)) {
    INFO("seed " << seed);
    auto options = job_options::drawn(seed, 20);
    options.cache_capacity = 1024;
    options.quiet_steps = 4;
    options.full_steps = 8;
    options.host_ranks = static_cast<std::int32_t>(2 + seed % 5);
    options.fan_in = 1 + seed % 3;
    options.buckets = 1 + seed % 6;
    options.in_order = seed % 2 == 0;
    if (seed % 4 < 2) {
      options.at_once = 10;
      options.between_us = 3000;
    }
    // The rates are zero, one or some of a thousand, so that some plans hold and some do not.
    options.mismatches *= 10;
    options.withdrawals *= 10;
    options.changes *= 10;
    const auto report = run_job(options);
    check(report);
    asked += report.sent.buckets;
    dissolved += report.sent.dissolved;
  }
  if (seeds(24).size() > 5) { // a single seed may learn no bucket, or dissolve none
    CHECK(asked > 0);
    CHECK(dissolved > 0);
  }
}

TEST_CASE(
    "tensors without names match again after a join before which members made unequal numbers of calls") {
  for (const auto seed : seeds(16)) {
    INFO("seed " << seed);
    auto options = job_options::drawn(seed, 20);
    options.unnamed = options.in_order = true;
    options.grouped = 0;
    options.host_ranks = static_cast<std::int32_t>(seed % 5);
    options.fan_in = 1 + seed % 3;
    check(run_job(options));
  }
}

TEST_CASE("240 workers on 30 hosts run the same bundles of 200 tensors") {
  many_workers(240, 8);
}

TEST_CASE("a thousand workers on 125 hosts run the same bundles of 200 tensors") {
  many_workers(1000, 8);
}

TEST_CASE("the same seed plays the same job, and another seed plays another job") {
  for (const auto seed : seeds(3)) {
    INFO("seed " << seed);
    const auto options = job_options::drawn(seed, 20);
    const auto first = run_job(options);
    const auto again = run_job(options);
    CHECK(first.trace == again.trace);
    CHECK(first.sequence == again.sequence);
    CHECK(first.sent.bytes == again.sent.bytes);
    CHECK(run_job(job_options::drawn(seed + 1000, 20)).trace != first.trace);
    auto relayed = options;
    relayed.host_ranks = 3;
    relayed.fan_in = 2;
    CHECK(run_job(relayed).trace == run_job(relayed).trace);
  }
}

TEST_CASE("once all tensors are known, members send only ids") {
  auto options = peaceful(50);
  const auto report = run_job(options);
  check(report);
  // Each member requests each tensor in full once; the join in the fourth of five steps changes no id.
  CHECK(report.sent.full == 50 * 200);
  CHECK(report.sent.ids > 3 * 50 * 200);
  CHECK(report.taken_back == 0);
}

TEST_CASE("with relays the leader of 512 ranks receives few messages per step") {
  auto options = training(4);
  options.at_once = 1'000'000;
  const auto report = run_job(options);
  check(report);
  REQUIRE(report.warm.steps == 1);
  // 9 relays, whose hosts do not submit at the same time.
  CHECK(report.warm.to_leader.messages < 5 * 9);
  CHECK(report.warm.to_leader.bytes < 64 * 1024);
}

TEST_CASE("with learned buckets the leader of 128 ranks receives few messages per backward pass") {
  few_messages_with_buckets(128);
}

TEST_CASE("with learned buckets the leader of 512 ranks receives few messages per backward pass") {
  few_messages_with_buckets(512);
}

TEST_CASE(
    "ranks that contribute nothing get what the others make of it, and nothing if there are no others") {
  for (const auto seed : seeds(20)) {
    INFO("seed " << seed);
    auto options = job_options::drawn(seed, static_cast<std::int32_t>(2 + seed % 9));
    options.absences = 2;
    options.full_steps = 6;
    options.host_ranks = static_cast<std::int32_t>(seed % 4);
    options.fan_in = 1 + seed % 3;
    const auto report = run_job(options);
    check(report);
    CHECK(report.without_result > 0);
    CHECK(report.as_rows > 0);
  }
}

TEST_CASE("faults affect only their own tensors") {
  auto options = peaceful(20);
  options.mismatches = 10;
  const auto report = run_job(options);
  check(report);
  CHECK(report.disagreed >= 20 * 20);
  CHECK(report.ended_well >= 20 * 200 * 3);
}
