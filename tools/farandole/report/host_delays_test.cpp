#include "tools/farandole/report/host_delays.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

/// A job of one rank on each host, whose ranks receive one schedule this long after rank 0, the leader.
struct scheduled_job {
  std::vector<rank_trace> traces;
  matched_calls matched;

  explicit scheduled_job(const std::vector<trace_time>& arrivals) {
    matched.operations.resize(1);
    matched.operations[0].calls.assign(arrivals.size(), 0);
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
      rank_trace trace;
      trace.rank = static_cast<std::int32_t>(i);
      trace.host = "host" + std::to_string(i);
      trace.above = i == 0 ? -1 : 0;
      traced_call call;
      call.sequence = 7;
      call.scheduled = 10ms + arrivals[i];
      trace.calls = {call};
      traces.push_back(trace);
    }
  }
  std::vector<host_delay> delays() const {
    return host_delays(traces, matched, host_numbers(traces), 0).of(0);
  }
};

} // namespace

TEST_CASE("a host to which schedules travel far longer than to others has a delay", "[report]") {
  const auto delays = scheduled_job({0us, 50us, 40us, 350us, 60us}).delays();
  CHECK(delays[3].excess == 300us);
  CHECK(delays[3].cause == 3);
  for (const std::size_t host : {0, 1, 2, 4})
    CHECK(delays[host].excess == 0us);
}

TEST_CASE("up to twice the median is usual", "[report]") {
  CHECK(scheduled_job({0us, 50us, 50us, 100us, 50us}).delays()[3].excess == 0us);
  CHECK(scheduled_job({0us, 50us, 50us, 101us, 50us}).delays()[3].excess == 51us);
}

TEST_CASE("a host behind a slow link has the same delay, caused by the other host", "[report]") {
  scheduled_job job({0us, 50us, 50us, 350us, 400us, 50us});
  job.traces[4].above = 3;
  const auto delays = job.delays();
  CHECK(delays[3].excess == 300us);
  CHECK(delays[4].excess == 300us);
  CHECK(delays[4].cause == 3);
  SECTION("hosts that name each other do not loop") {
    job.traces[3].above = 4;
    CHECK(job.delays().size() == 6);
  }
}

TEST_CASE("a link that becomes slow delays the operations from then on, and a single late message none",
          "[report]") {
  scheduled_job job({0us, 50us, 50us, 50us});
  job.matched.operations.assign(48, job.matched.operations[0]);
  for (auto& trace : job.traces) {
    trace.calls.assign(48, trace.calls[0]);
    for (std::size_t i = 0; i < 48; ++i) {
      trace.calls[i].sequence = i;
      trace.calls[i].scheduled += i * 1ms + (trace.rank == 2 && (i == 5 || i >= 32) ? 400us : 0us);
      job.matched.operations[i].calls[static_cast<std::size_t>(trace.rank)] = i;
    }
  }
  const host_delays delays(job.traces, job.matched, host_numbers(job.traces), 0);
  CHECK(delays.of(5)[2].excess == 0us);
  CHECK(delays.of(31)[2].excess == 0us);
  CHECK(delays.of(32)[2].excess == 400us);
  CHECK(delays.of(47)[2].excess == 400us);
}

TEST_CASE("with one or two other hosts there is nothing to compare a link with", "[report]") {
  for (const auto& delay : scheduled_job({0us, 50us, 5ms}).delays())
    CHECK(delay.excess == 0us);
}

TEST_CASE("hosts whose clocks were not measured, and other bundles, do not count", "[report]") {
  scheduled_job job({0us, 50us, 40us, 350us, 60us});
  SECTION("a clock that was not measured") {
    job.traces[3].axis = 1;
  }
  SECTION("another bundle") {
    job.traces[3].calls[0].sequence = 8;
  }
  SECTION("no call") {
    job.matched.operations[0].calls[3].reset();
  }
  CHECK(job.delays()[3].excess == 0us);
}
