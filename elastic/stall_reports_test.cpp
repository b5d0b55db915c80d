#include "elastic/stall_reports.hpp"

#include <catch2/catch.hpp>

#include <string>

using namespace farandole;
using namespace std::chrono_literals;
using time_point = stall_reports::time_point;

namespace {

constexpr time_point start{100h};
constexpr stall_origin leader{0, 0, stall_source::leader};

stall_reports reports_of(std::chrono::seconds warning) {
  stall_rules rules;
  rules.warning = warning;
  rules.warning_setting = "stall warning time = " + std::to_string(warning.count()) + " s";
  return stall_reports(rules);
}

stall_notice notice_of(std::vector<stalled_tensor> tensors) {
  const auto count = static_cast<std::uint32_t>(tensors.size());
  return {stall_source::leader, std::move(tensors), count};
}

/// Calls due() at each requested time until `end`; returns the seconds of the reports.
std::vector<std::int64_t> report_seconds(stall_reports& reports, std::optional<time_point> call,
                                         std::chrono::seconds end) {
  std::vector<std::int64_t> seconds;
  while (call && *call <= start + end) {
    const auto step = reports.due(*call);
    if (step.report)
      seconds.push_back((*call - start) / 1s);
    call = step.call_next;
  }
  return seconds;
}

} // namespace

TEST_CASE("two ranks that wait for each other's tensor give one report, with the cause", "[stall_reports]") {
  auto reports = reports_of(60s);
  CHECK_FALSE(reports.take({0, 0, stall_source::fast_path}, notice_of({{"a", 31s, {1}}}), start).report);
  CHECK_FALSE(reports.take({1, 0, stall_source::fast_path}, notice_of({{"b", 31s, {0}}}), start + 5s).report);
  const auto step =
      reports.take({0, 0, stall_source::fast_path}, notice_of({{"a", 60001ms, {1}}}), start + 29s);
  REQUIRE(step.report);
  CHECK_FALSE(step.report->over);
  CHECK(step.missing == std::vector<std::int32_t>{0, 1});
  CHECK_THAT(step.report->text,
             Catch::Contains("longer than stall warning time = 60 s: a for 60.0 s, b for 55.0 s.") &&
                 Catch::EndsWith("rank 0 waits for a, rank 1 for b: they call in different orders"));
  CHECK_FALSE(
      reports.take({1, 0, stall_source::fast_path}, notice_of({{"b", 60001ms, {0}}}), start + 34s).report);
}

TEST_CASE("tensors that complete before the warning time are not reported", "[stall_reports]") {
  auto reports = reports_of(60s);
  const auto first = reports.take(leader, notice_of({{"a", 31s, {1}}}), start);
  CHECK_FALSE(first.report);
  CHECK_FALSE(first.call_next);
  CHECK_FALSE(reports.take(leader, notice_of({}), start + 100s).report);
  // No notice says that `a` still waits.
  reports.take(leader, notice_of({{"a", 31s, {1}}}), start + 200s);
  CHECK_FALSE(reports.due(start + 300s).report);
}

TEST_CASE("a stall is reported again after the warning time, then at intervals that double up to a bound",
          "[stall_reports]") {
  auto reports = reports_of(60s);
  const auto first = reports.take(leader, notice_of({{"a", 61s, {1}}}), start);
  REQUIRE(first.report);
  CHECK(first.call_next == start + 60s);
  CHECK_FALSE(reports.take(leader, notice_of({{"a", 91s, {1}}}), start + 30s).report);
  CHECK(report_seconds(reports, first.call_next, 3h) ==
        std::vector<std::int64_t>{60, 180, 420, 900, 1860, 3660, 5460, 7260, 9060});
  auto rare = reports_of(7200s);
  const auto later = rare.take(leader, notice_of({{"a", 7201s, {1}}}), start);
  CHECK(report_seconds(rare, later.call_next, 6h) == std::vector<std::int64_t>{7200, 14400, 21600});
}

TEST_CASE("a repeated report has the present ages", "[stall_reports]") {
  auto reports = reports_of(60s);
  reports.take(leader, notice_of({{"a", 61s, {1}}}), start);
  const auto again = reports.due(start + 60s);
  REQUIRE(again.report);
  CHECK_THAT(again.report->text, Catch::Contains("a for 121.0 s"));
}

TEST_CASE("further missing ranks are reported at once, further tensors of known ranks are not",
          "[stall_reports]") {
  auto reports = reports_of(60s);
  REQUIRE(reports.take(leader, notice_of({{"a", 61s, {1}}}), start).report);
  CHECK_FALSE(reports.take(leader, notice_of({{"a", 62s, {1}}, {"b", 61s, {1}}}), start + 1s).report);
  CHECK_FALSE(reports.take({2, 4, stall_source::leader}, notice_of({{"c", 40s, {3}}}), start + 2s).report);
  CHECK(reports.take({2, 4, stall_source::leader}, notice_of({{"c", 61s, {3}}}), start + 23s).report);
  CHECK_FALSE(reports.take({2, 4, stall_source::leader}, notice_of({{"c", 62s, {3}}}), start + 24s).report);
}

TEST_CASE("the end of a stall is reported once, with its duration, and the next stall is a new one",
          "[stall_reports]") {
  auto reports = reports_of(60s);
  reports.take(leader, notice_of({{"a", 61s, {1}}}), start);
  reports.take({1, 0, stall_source::fast_path}, notice_of({{"b", 61s, {0}}}), start);
  CHECK_FALSE(reports.take(leader, notice_of({}), start + 5s).report);
  const auto end = reports.take({1, 0, stall_source::fast_path}, notice_of({{"c", 40s, {0}}}), start + 9s);
  REQUIRE(end.report);
  CHECK(end.report->over);
  CHECK_THAT(end.report->text, Catch::StartsWith("The stall is over: it lasted 70.0 s"));
  CHECK_FALSE(end.call_next);
  CHECK_FALSE(reports.due(start + 60s).report);
  CHECK(reports.take(leader, notice_of({{"a", 61s, {1}}}), start + 61s).report);
}

TEST_CASE("a member that is gone is forgotten, and so is everything at the end of a generation",
          "[stall_reports]") {
  auto reports = reports_of(60s);
  reports.take(leader, notice_of({{"a", 61s, {1}}}), start);
  reports.take({3, 0, stall_source::fast_path}, notice_of({{"b", 61s, {0}}}), start);
  reports.forget(3);
  const auto again = reports.due(start + 60s);
  REQUIRE(again.report);
  CHECK_THAT(again.report->text, !Catch::Contains("b for"));
  reports.forget(0);
  CHECK_FALSE(reports.due(start + 61s).report);
  REQUIRE(reports.take(leader, notice_of({{"a", 61s, {1}}}), start + 62s).report);
  reports.clear();
  CHECK_FALSE(reports.due(start + 200s).report);
}

TEST_CASE("the memory for notices is bounded, and further tensors are counted", "[stall_reports]") {
  auto reports = reports_of(60s);
  const std::vector<stalled_tensor> many(most_stalled_tensors, {std::string(4096, 'n'), 40s, {1}});
  for (std::int32_t rank = 0; rank < 4096; ++rank)
    reports.take({rank, 0, stall_source::fast_path}, notice_of(many), start);
  const auto step = reports.take({0, 0, stall_source::fast_path}, notice_of({{"a", 61s, {1}}}), start);
  REQUIRE(step.report);
  CHECK_THAT(step.report->text, Catch::Contains(": a for 61.0 s, " + std::string(256, 'n') + " for 40.0 s"));
  // 1,024 members are known, one of them with a single tensor.
  CHECK_THAT(step.report->text, Catch::Contains("and " + std::to_string(1023 * 64 + 1 - 6) + " more. "));
}
