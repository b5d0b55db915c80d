#include "elastic/join_retry.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

const join_retry::time_point t0{};
const error loss{error_kind::disconnected, "rank 2 on here was killed by signal 9"};

join_retry tries(bool elastic = true) {
  return {elastic, std::make_shared<join_deadline>(true, 600s, t0), "elastic timeout = 600 s"};
}

} // namespace

TEST_CASE("a loss while members connect is tried again, in an elastic job only") {
  CHECK_FALSE(tries().after(loss, t0 + 599s));
  CHECK(tries(false).after(loss, t0).text == loss.text);
}

TEST_CASE("a timeout while members connect is tried again until the deadline, in an elastic job only") {
  const error held_up{error_kind::timed_out, "operations wait for rank 2"};
  CHECK_FALSE(tries().after(held_up, t0 + 599s));
  CHECK(tries().after(held_up, t0 + 600s).text == held_up.text);
  CHECK(tries(false).after(held_up, t0).text == held_up.text);
}

TEST_CASE("an error that is no loss is not tried again") {
  for (const auto kind :
       {error_kind::unknown, error_kind::precondition, error_kind::dismissed, error_kind::invalid_argument}) {
    const auto told = tries().after({kind, "why"}, t0);
    CHECK(told.kind == kind);
    CHECK(told.text == "why");
  }
}

TEST_CASE("a member that never joins gives up, and the error names the last try's error") {
  auto late = tries().after(loss, t0 + 600s);
  CHECK(late.kind == error_kind::timed_out);
  CHECK_THAT(late.text, Catch::Contains("within elastic timeout = 600 s") && Catch::Contains(loss.text));

  auto often = tries();
  for (int i = 1; i < join_retry::limit; ++i)
    REQUIRE_FALSE(often.after(loss, t0));
  CHECK_THAT(often.after(loss, t0).text, Catch::Contains("100 times in a row"));
}

TEST_CASE("the delay grows with each failed try, and ends at the deadline") {
  auto often = tries();
  REQUIRE_FALSE(often.after(loss, t0));
  CHECK(often.delay(t0, 0.5) == 0ns);
  REQUIRE_FALSE(often.after(loss, t0));
  CHECK(often.delay(t0, 0.5) == retry_delay(2, 0.5));
  REQUIRE_FALSE(often.after(loss, t0));
  CHECK(often.delay(t0, 0.5) == retry_delay(3, 0.5));
  CHECK(often.delay(t0 + 600s - 20ms, 0.5) == 20ms);
}

TEST_CASE("in an elastic job sets may be founded until the join deadline, else for a fixed time") {
  const join_retry::time_point current_time{std::chrono::hours(5)};
  const auto deadline = std::make_shared<join_deadline>(true, 600s, current_time);
  const join_retry elastic(true, deadline, "elastic timeout"), fixed(false, deadline, "start timeout");
  const std::chrono::seconds patience{30};
  CHECK(elastic.founding_until(current_time, patience) == current_time + 600s);
  CHECK(fixed.founding_until(current_time, patience) == current_time + patience);
}
