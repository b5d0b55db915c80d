#include "elastic/missing_reports.hpp"

#include <catch2/catch.hpp>

#include <vector>

using namespace farandole;
using namespace std::chrono_literals;
using time_point = missing_reports::time_point;

namespace {

constexpr time_point start{100h};

/// Calls due() at each requested time until `end`; returns the seconds of the updates, or of the reports
/// alone.
std::vector<std::int64_t> report_seconds(missing_reports& reports, std::optional<time_point> call,
                                         std::chrono::seconds end, bool reports_only) {
  std::vector<std::int64_t> seconds;
  while (call && *call <= start + end) {
    const auto step = reports.due(*call);
    if (step.report || (step.update && !reports_only))
      seconds.push_back((*call - start) / 1s);
    call = step.call_next;
  }
  return seconds;
}

} // namespace

TEST_CASE("missing members are reported after 5 s, then at intervals that double", "[missing_reports]") {
  missing_reports reports;
  const auto first = reports.changed(true, start);
  CHECK_FALSE(first.update);
  CHECK(report_seconds(reports, first.call_next, 200s, true) ==
        std::vector<std::int64_t>{5, 15, 35, 75, 155});
}

TEST_CASE("waiting members get an update within a second of a change, with any number of changes",
          "[missing_reports]") {
  missing_reports reports;
  const auto first = reports.changed(true, start);
  REQUIRE(first.call_next == start + 1s);
  for (int other = 0; other < 100; ++other)
    CHECK_FALSE(reports.changed(true, start + 100ms).call_next); // a call has been requested already
  CHECK(reports.due(start + 1s).update);
  const auto later = reports.changed(true, start + 1500ms);
  CHECK(later.call_next == start + 2s);
  const auto told = reports.due(start + 2s);
  CHECK(told.update);
  CHECK_FALSE(told.report);
  CHECK(told.waited == 2s);
  CHECK(report_seconds(reports, told.call_next, 16s, false) == std::vector<std::int64_t>{5, 15});
}

TEST_CASE("once a generation has started nothing is reported, and the next wait has its own times",
          "[missing_reports]") {
  missing_reports reports;
  reports.changed(true, start);
  CHECK_FALSE(reports.changed(false, start + 500ms).call_next);
  const auto idle = reports.due(start + 1s);
  CHECK_FALSE(idle.update);
  CHECK_FALSE(idle.call_next);
  const auto again = reports.changed(true, start + 100s);
  CHECK(again.call_next == start + 101s);
  CHECK(report_seconds(reports, again.call_next, 116s, true) == std::vector<std::int64_t>{105, 115});
}

TEST_CASE("an early or repeated call sends no update", "[missing_reports]") {
  missing_reports reports;
  reports.changed(true, start);
  CHECK_FALSE(reports.due(start + 500ms).update);
  CHECK(reports.due(start + 5s).report);
  CHECK_FALSE(reports.due(start + 5s).update);
}

TEST_CASE("the text names missing ranks with their hosts, and counts those it does not list",
          "[missing_reports]") {
  CHECK(text_of({5, 2, 4, true, {{1, "node1"}, {3, ""}}}, false) ==
        "2 of 4 ranks have called init(); missing: rank 1 on node1, rank 3");
  CHECK(text_of({5, 1, 40, true, {{1, ""}, {2, ""}}}, false) ==
        "1 of 40 ranks has called init(); missing: rank 1, rank 2 and 37 more");
  CHECK(text_of({5, 1, 2, true, {}}, true) == "1 of 2 workers has called init(); missing: 1 not started yet");
}
