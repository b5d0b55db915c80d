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

TEST_CASE("a member that is lost while others connect means another try, in an elastic job only") {
  CHECK_FALSE(tries().after(loss, t0 + 599s));
  CHECK(tries(false).after(loss, t0).text == loss.text);
}

TEST_CASE("a member whose process is stopped while others connect means another try, while there is time") {
  const error held_up{error_kind::timed_out, "operations wait for rank 2"};
  CHECK_FALSE(tries().after(held_up, t0 + 599s));
  CHECK(tries().after(held_up, t0 + 600s).text == held_up.text);
  CHECK(tries(false).after(held_up, t0).text == held_up.text);
}

TEST_CASE("what is no loss is not tried again") {
  for (const auto kind :
       {error_kind::unknown, error_kind::precondition, error_kind::dismissed, error_kind::invalid_argument}) {
    const auto told = tries().after({kind, "why"}, t0);
    CHECK(told.kind == kind);
    CHECK(told.text == "why");
  }
}

TEST_CASE("who never gets in gives up, and says how the last try ended") {
  auto late = tries().after(loss, t0 + 600s);
  CHECK(late.kind == error_kind::timed_out);
  CHECK_THAT(late.text, Catch::Contains("within elastic timeout = 600 s") && Catch::Contains(loss.text));

  auto often = tries();
  for (int i = 1; i < join_retry::limit; ++i)
    REQUIRE_FALSE(often.after(loss, t0));
  CHECK_THAT(often.after(loss, t0).text, Catch::Contains("100 times in a row"));
}

TEST_CASE("tries that fail one after the other wait longer and longer, and not beyond the deadline") {
  auto often = tries();
  REQUIRE_FALSE(often.after(loss, t0));
  CHECK(often.delay(t0, 0.5) == 0ns);
  REQUIRE_FALSE(often.after(loss, t0));
  CHECK(often.delay(t0, 0.5) == retry_delay(2, 0.5));
  REQUIRE_FALSE(often.after(loss, t0));
  CHECK(often.delay(t0, 0.5) == retry_delay(3, 0.5));
  CHECK(often.delay(t0 + 600s - 20ms, 0.5) == 20ms);
}

TEST_CASE("where members may change, nobody gives up the founding of sets before the whole start") {
  const join_retry::time_point current_time{std::chrono::hours(5)};
  const auto deadline = std::make_shared<join_deadline>(true, 600s, current_time);
  const join_retry elastic(true, deadline, "elastic timeout"), fixed(false, deadline, "start timeout");
  const std::chrono::seconds patience{30};
  CHECK(elastic.founding_until(current_time, patience) == current_time + 600s);
  CHECK(fixed.founding_until(current_time, patience) == current_time + patience);
}
