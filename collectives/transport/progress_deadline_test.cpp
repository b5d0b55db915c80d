#include "collectives/transport/progress_deadline.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

const progress_deadline::time_point start{1000s};

} // namespace

TEST_CASE("a wait without progress fails at the deadline that its operation was given", "[progress]") {
  const progress_deadline limit(start + 30s, 30s, start);
  CHECK(limit.at() == start + 30s);
}

TEST_CASE("a later wait of an operation has the whole timeout", "[progress]") {
  const progress_deadline limit(start + 30s, 30s, start + 1h);
  CHECK(limit.at() == start + 1h + 30s);
}

TEST_CASE("a wait that makes progress does not fail, however long it takes", "[progress]") {
  progress_deadline limit(start + 30s, 30s, start);
  for (auto now = start; now < start + 1h; now += 29s) {
    CHECK(limit.at() > now);
    limit.progressed(now);
    CHECK(limit.at() == now + 30s);
  }
}

TEST_CASE("without a timeout, progress does not extend the deadline", "[progress]") {
  progress_deadline limit(start + 30s, 0s, start);
  limit.progressed(start + 29s);
  CHECK(limit.at() == start + 30s);
}

TEST_CASE("an operation without a limit has none after progress either", "[progress]") {
  constexpr auto never = progress_deadline::time_point::max();
  progress_deadline limit(never, never - start, start + 1s);
  limit.progressed(start + 2s);
  CHECK(limit.at() == never);
}

TEST_CASE("a call that does not tell progress has one timeout more for each GiB", "[progress]") {
  constexpr std::size_t gib = std::size_t{1} << 30;
  CHECK(timeout_of_call(30s, 0) == 30s);
  CHECK(timeout_of_call(30s, gib - 1) == 30s);
  CHECK(timeout_of_call(30s, gib) == 60s);
  CHECK(timeout_of_call(30s, 10 * gib + 5) == 330s);
  CHECK(timeout_of_call(std::chrono::nanoseconds::max(), gib) == std::chrono::nanoseconds::max());
}
