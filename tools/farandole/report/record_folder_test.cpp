// Explain and report on the files of a job of 512 ranks.
#include <catch2/catch.hpp>

#include <algorithm>

#include "tests/temporary_folder.hpp"
#include "tools/farandole/explain/explanation_text.hpp"
#include "tools/farandole/explain/record_file_testing.hpp"
#include "tools/farandole/explain/record_files.hpp"
#include "tools/farandole/report/report_testing.hpp"
#include "tools/farandole/report/report_text.hpp"

using namespace farandole;
using namespace farandole::testing;
using Catch::Matchers::Contains;
using std::chrono::microseconds;

namespace {

constexpr std::int32_t ranks = 512;
constexpr std::int32_t late = 77, missing = 300;

/// Each rank but one has called "last" when the records are copied, and waits for it.
made_job job_that_hangs() {
  job_plan plan;
  plan.ranks = ranks;
  plan.ranks_per_host = 8;
  plan.steps = 8;
  plan.fast_path = false;
  plan.measured_clocks = true;
  plan.delay = [](int, std::int32_t rank) { return microseconds(rank == late ? 1'000 : 0); };
  made_job job(plan);
  for (auto& record : job.records()) {
    if (record.member.rank == missing)
      continue;
    record.names.push_back("last");
    const auto name = static_cast<std::uint32_t>(record.names.size() - 1);
    auto& events = record.threads[0].events;
    const auto time = events.back().ticks + 1'000'000;
    events.push_back({time, name, 0, event_kind::submitted, 0, 16, 0});
    events.push_back({time + 1'000, name, 0, event_kind::wait_begin, 0, 0, 0});
  }
  return job;
}

std::size_t lines_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

} // namespace

TEST_CASE("a folder of 512 records is explained and reported on one page, by the clock of rank 0",
          "[report]") {
  const temporary_folder folder;
  auto job = job_that_hangs();
  for (const auto& record : job.records())
    write_record_file(folder.file("rank-" + std::to_string(record.member.rank) + ".events"), record, 64,
                      std::chrono::nanoseconds(record.threads[0].events.back().ticks) +
                          std::chrono::seconds(5));
  auto found = read_record_files({folder.path()});
  REQUIRE(found.problems.empty());
  REQUIRE(found.files.size() == ranks);
  const auto activities = activities_in(found, {});
  CHECK(found.problems.empty());

  const auto explained = explain_job(activities, {});
  REQUIRE(explained.pending.size() == 1);
  CHECK(explained.pending[0].called.size() == ranks - 1);
  CHECK(explained.pending[0].missing == std::vector{missing});
  const auto text = text_of(explained);
  CHECK_THAT(text, Contains("wait for rank 300, which has not called last"));
  CHECK_THAT(text, Contains("ranks 0 to 299 and 301 to 511"));
  // The records of the hosts were copied at the same moment, but by clocks that differ by more than a minute.
  CHECK_THAT(text, Contains("last (allreduce, 16 B), for 5.0 s"));
  CHECK(lines_of(text) < 40);

  const auto report = report_job(members_in(found, activities), {});
  CHECK(report.ranks.size() == ranks);
  CHECK(report.hosts_compared);
  REQUIRE(report.stragglers.size() == 1);
  CHECK(report.stragglers[0].straggler.rank == late);
  CHECK(report.stragglers[0].straggler.kind == straggler_kind::late_at_call);
  CHECK(lines_of(text_of(report)) < 70);
}
