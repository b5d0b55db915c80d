#include "tools/farandole/report/job_report.hpp"

#include <catch2/catch.hpp>

#include "tools/farandole/report/report_testing.hpp"
#include "tools/farandole/report/report_text.hpp"

using namespace farandole;
using Catch::Matchers::Contains;
using std::chrono::microseconds;

namespace {

trace_time sum_of(const step_time& time) {
  return time.outside + time.blocked_total() + time.negotiation + time.queue + time.transfer;
}

double us(trace_time time) {
  return static_cast<double>(time.count()) * 1e-3;
}

/// Overwrites the oldest events of a thread.
void drop(event_record& record, std::size_t thread, std::size_t count) {
  auto& ring = record.threads[thread];
  ring.events.erase(ring.events.begin(), ring.events.begin() + static_cast<std::ptrdiff_t>(count));
  ring.dropped = count;
}

job_plan late_rank_plan() {
  job_plan plan;
  plan.ranks = 4;
  plan.delay = [](int, std::int32_t rank) { return microseconds(rank == 1 ? 5'000 : 0); };
  return plan;
}

} // namespace

TEST_CASE("the parts of a step add up to its time, on each rank and on the mean", "[report]") {
  auto plan = late_rank_plan();
  plan.fast_path = GENERATE(true, false);
  plan.marked = GENERATE(true, false);
  plan.asynchronous = !plan.fast_path && GENERATE(true, false);
  plan.jitter = 0.1;
  const auto report = made_job(plan).report();
  REQUIRE(report.ranks.size() == 4);
  for (const auto& rank : report.ranks) {
    CHECK(us(sum_of(rank.time)) == Approx(us(rank.time.wall)).epsilon(0.0001));
    CHECK(rank.time.wall.count() > 0);
  }
  CHECK(us(sum_of(report.mean)) == Approx(us(report.mean.wall)).epsilon(0.0001));
  CHECK(report.ranks[1].time.outside > report.ranks[0].time.outside);
  CHECK(report.ranks[1].time.blocked_total() < report.ranks[0].time.blocked_total());
}

TEST_CASE("marked steps have the numbers of their marks, and the first one has no begin", "[report]") {
  auto plan = late_rank_plan();
  plan.marked = true;
  plan.tensors = {"a", "a2", "a3"};
  const auto report = made_job(plan).report();
  CHECK(report.steps.marked);
  REQUIRE(report.steps.steps.size() == 39);
  CHECK(report.steps.steps.front().number == 2);
  CHECK(report.steps.steps.back().number == 40);
}

TEST_CASE("without marks, steps are inferred after a warm-up", "[report]") {
  auto plan = late_rank_plan();
  plan.warm_up = {"parameters", "state"};
  plan.fast_path = GENERATE(true, false);
  const auto report = made_job(plan).report();
  CHECK_FALSE(report.steps.marked);
  CHECK(report.steps.first.name == "a");
  CHECK(report.steps.steps.size() == 39); // the last one has no end
  CHECK(report.steps.other_kinds == 0);
}

TEST_CASE("evaluation steps are left out of the training steps", "[report]") {
  auto plan = late_rank_plan();
  made_job job(plan);
  for (int i = 0; i < 5; ++i)
    job.run({"metric"}, -1);
  for (int i = 0; i < 10; ++i)
    job.run(plan.tensors, i);
  const auto report = job.report();
  CHECK(report.steps.first.name == "a");
  CHECK(report.steps.steps.size() == 49);
  CHECK(report.steps.other_kinds == 5);
}

TEST_CASE("records that begin at different points give the steps that all contain", "[report]") {
  auto plan = late_rank_plan();
  plan.fast_path = GENERATE(true, false);
  made_job job(plan);
  // Each call has three events on its caller's thread, or four on the fast path.
  const std::size_t per_step = plan.fast_path ? 8 : 6;
  drop(job.records()[0], 0, per_step * 3 + 1);
  drop(job.records()[2], 0, per_step * 10 + 2);
  const auto report = job.report();
  CHECK(report.steps.first.name == "b"); // the first call of rank 0 that is left
  CHECK(report.steps.steps.size() == 40 - 10 - 1);
  REQUIRE(report.stragglers.size() == 1);
  CHECK(report.stragglers[0].straggler.rank == 1);
  CHECK(us(report.stragglers[0].straggler.cost) == Approx(5'000).epsilon(0.1));
}

TEST_CASE("tensors that the leader reduces are matched across hosts by their order", "[report]") {
  auto plan = late_rank_plan();
  plan.fast_path = false;
  plan.ranks_per_host = 2;
  made_job job(plan);
  for (auto& record : job.records()) {
    std::erase_if(record.threads[1].events,
                  [](const event& entry) { return entry.kind == event_kind::scheduled; });
    record.threads[2].events.erase(
        std::remove_if(record.threads[2].events.begin(), record.threads[2].events.end(),
                       [](const event& entry) { return entry.kind != event_kind::settled; }),
        record.threads[2].events.end());
  }
  const auto report = job.report();
  CHECK(report.steps.steps.size() == 39);
  // On the leader's host, its record tells when the last rank had called.
  CHECK(us(report.ranks[0].time.blocked.at(1).call) == Approx(5'000).epsilon(0.1));
  CHECK(report.ranks[0].time.transfer == trace_time{0});
}

TEST_CASE("a rank of another host is found late by the leader's record", "[report]") {
  auto plan = late_rank_plan();
  plan.fast_path = false;
  plan.ranks_per_host = 1;
  const auto report = made_job(plan).report();
  REQUIRE(report.stragglers.size() == 1);
  CHECK(report.stragglers[0].straggler.rank == 1);
  CHECK(report.stragglers[0].straggler.kind == straggler_kind::late_at_call);
  CHECK(us(report.stragglers[0].straggler.cost) == Approx(5'000).epsilon(0.1));
  CHECK(us(report.ranks[3].time.blocked.at(1).call) == Approx(5'000).epsilon(0.1));
}

TEST_CASE("a late rank without a record is known from the leader's record", "[report]") {
  auto plan = late_rank_plan();
  plan.fast_path = false;
  made_job job(plan);
  job.records().erase(job.records().begin() + 1);
  const auto report = job.report();
  CHECK(report.unrecorded == std::vector<std::int32_t>{1});
  REQUIRE(report.stragglers.size() == 1);
  CHECK(report.stragglers[0].straggler.rank == 1);
  CHECK(us(report.stragglers[0].straggler.cost) == Approx(5'000).epsilon(0.1));
}

TEST_CASE("a record of a rank that the job does not have, or of an impossible size, is left out",
          "[report]") {
  made_job job(late_rank_plan());
  const auto change = [&](std::size_t rank, std::uint32_t size, std::uint32_t number) {
    job.records()[rank].threads[1].events.front().second = pair_field(size, number);
  };
  change(3, 4, 2'000'000'000);
  CHECK(job.report().ranks.size() == 3);
  change(2, 2'000'000'000, 2);
  CHECK(job.report().size == 65'536);
  for (std::uint32_t rank = 0; rank < 4; ++rank)
    change(rank, 0, rank);
  CHECK_THAT(refusal_of(job.report()), Contains("no record is one of a rank of the job"));
}

TEST_CASE("a job of one rank has no stragglers, and a sum", "[report]") {
  job_plan plan;
  plan.ranks = 1;
  plan.fast_path = false;
  const auto report = made_job(plan).report();
  CHECK(report.stragglers.empty());
  CHECK(report.steps.steps.size() == 39);
  CHECK(report.mean.blocked_total() == trace_time{0});
  CHECK_THAT(text_of(report), !Contains("straggler") && !Contains("No rank"));
}

TEST_CASE("transfers while the program computes are shown as hidden", "[report]") {
  job_plan plan;
  plan.fast_path = false;
  plan.asynchronous = true;
  plan.tensors = {"a", "b", "c", "d"};
  const auto report = made_job(plan).report();
  // The transfers of a, b and c, of 200 µs each, end before the rank waits.
  CHECK(us(report.mean.hidden) == Approx(600).epsilon(0.1));
  CHECK(us(report.mean.transfer) < 300);
}

TEST_CASE("the critical path leads through the late rank", "[report]") {
  auto plan = late_rank_plan();
  plan.fast_path = GENERATE(true, false);
  const auto report = made_job(plan).report();
  trace_time length{0}, outside{0};
  for (const auto& segment : report.median_path.segments) {
    length += segment.length;
    if (segment.rank == 1 && segment.use == time_use::outside)
      outside += segment.length;
    CHECK(segment.use != time_use::late_call);
  }
  CHECK(us(length) == Approx(us(report.median)).epsilon(0.05));
  CHECK(us(outside) > 9'900); // all computation of the late rank after its first call, and its delay
}

TEST_CASE("without steps the report says why, and what to do", "[report]") {
  job_plan plan;
  plan.steps = 2;
  const auto report = made_job(plan).report();
  CHECK(report.steps.steps.empty());
  CHECK_THAT(refusal_of(report), Contains("no names of tensors recur") && Contains("mark_step()"));
}

TEST_CASE("the text names the straggler, its cost and what would be saved", "[report]") {
  const auto report = made_job(late_rank_plan()).report();
  const auto text = text_of(report);
  CHECK_THAT(text, Contains("A job of 4 ranks, generation 1: 39 steps"));
  CHECK_THAT(text, Contains("each begins with the call for a."));
  CHECK_THAT(text, Contains("rank 1 on host0 is late at its calls"));
  CHECK_THAT(text, Contains("It was the main cause in 39 of 39 steps, from the first recorded step on."));
  CHECK_THAT(text, Contains("Without it, a step would take about 10."));
  CHECK_THAT(text, Contains("rank 1: outside the library, before a"));
  const auto json = json_of(report);
  CHECK_THAT(json,
             Contains("\"stragglers\": [{\"kind\": \"late_at_call\", \"rank\": 1, \"host\": \"host0\""));
  CHECK_THAT(json, Contains("\"begins_with\": \"a\"") && Contains("\"median_path\": {\"step\": "));
}

TEST_CASE("the text and JSON name a slow link, with the error of the clocks", "[report]") {
  job_plan plan;
  plan.ranks = 8;
  plan.ranks_per_host = 2;
  plan.fast_path = false;
  plan.link_delay = [](int, std::int32_t host) { return microseconds(host == 2 ? 500 : 0); };
  SECTION("with measured clocks") {
    plan.measured_clocks = true;
    auto report = made_job(plan).report();
    report.median_path.segments = {{4, time_use::late_message, microseconds(700), 0}};
    const auto text = text_of(report);
    CHECK_THAT(text, Contains("Times of different hosts are compared with an error of at most 540 µs."));
    CHECK_THAT(text, Contains("the host host2 has a slow link: its ranks call in time"));
    CHECK_THAT(text, Contains("It was the main cause in 39 of 39 steps, from the first recorded step on."));
    CHECK_THAT(text, Contains("Without it, a step would take about 10."));
    CHECK_THAT(text, Contains("700 µs  rank 4: messages to or from its host travel long, for a\n"));
    const auto json = json_of(report);
    CHECK_THAT(json, Contains("\"stragglers\": [{\"kind\": \"link\", \"rank\": null, \"host\": \"host2\""));
    CHECK_THAT(json, Contains("\"hosts_compared\": true, \"clock_error\": 0.000540000"));
    CHECK_THAT(json, Contains("\"use\": \"late_message\""));
  }
  SECTION("without") {
    const auto report = made_job(plan).report();
    const auto text = text_of(report);
    CHECK_THAT(text, Contains("The clocks of some hosts were not measured"));
    CHECK_THAT(text, Contains("the host host2 or its link is slow"));
    CHECK_THAT(json_of(report), Contains("{\"kind\": \"host_or_link\", \"rank\": null, \"host\": \"host2\""));
  }
}

TEST_CASE("with measured clocks calls on different hosts are compared, also with the second last one",
          "[report]") {
  auto plan = late_rank_plan();
  plan.fast_path = false;
  plan.ranks_per_host = 1;
  plan.measured_clocks = true;
  const auto report = made_job(plan).report();
  CHECK(report.hosts_compared);
  REQUIRE(report.stragglers.size() == 1);
  CHECK(report.stragglers[0].straggler.rank == 1);
  CHECK(report.stragglers[0].straggler.kind == straggler_kind::late_at_call);
  CHECK(us(report.stragglers[0].straggler.cost) == Approx(5'000).epsilon(0.05));
  // Of the ranks that wait, the one that calls last could have been as late without harm.
  CHECK(us(report.median - report.expected) == Approx(5'000).epsilon(0.05));
}
