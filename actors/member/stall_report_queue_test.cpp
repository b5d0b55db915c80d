#include "actors/member/stall_report_queue.hpp"

#include <catch2/catch.hpp>

#include <future>
#include <string>

using namespace farandole;
using clock_type = std::chrono::steady_clock;

namespace {

constexpr auto never = clock_type::time_point::max();

} // namespace

TEST_CASE("reports are kept once a thread has waited for one, and then the last few",
          "[stall_report_queue]") {
  stall_report_queue queue;
  queue.push({"before", false});
  const auto none = queue.next(clock_type::now());
  REQUIRE_FALSE(none);
  CHECK(none.error().kind == error_kind::timed_out);
  for (std::size_t number = 0; number <= stall_report_queue::most_reports; ++number)
    queue.push({std::to_string(number), number == 1});
  for (std::size_t number = 1; number <= stall_report_queue::most_reports; ++number) {
    const auto report = queue.next(never);
    REQUIRE(report);
    CHECK(*report == stall_report{std::to_string(number), number == 1});
  }
  CHECK_FALSE(queue.next(clock_type::now()));
}

TEST_CASE("a report and the end wake the thread that waits", "[stall_report_queue]") {
  stall_report_queue queue;
  REQUIRE_FALSE(queue.next(clock_type::now()));
  auto first = std::async(std::launch::async, [&] { return queue.next(never); });
  queue.push({"rank 1 is missing", false});
  const auto report = first.get();
  REQUIRE(report);
  CHECK(report->text == "rank 1 is missing");
  auto last = std::async(std::launch::async, [&] { return queue.next(never); });
  queue.close();
  CHECK(last.get().error().kind == error_kind::shut_down);
  queue.push({"late", false});
  CHECK(queue.next(never).error().kind == error_kind::shut_down);
}
