#include "elastic/join_deadline.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

const join_deadline::time_point t0{std::chrono::hours(1)};

} // namespace

TEST_CASE("the deadline of init() counts from the start on") {
  const join_deadline wait(true, 600s, t0);
  CHECK_FALSE(wait.paused());
  CHECK(wait.until(t0 + 100s) == t0 + 600s);
  CHECK_FALSE(wait.over(t0 + 600s - 1ns));
  CHECK(wait.over(t0 + 600s));
}

TEST_CASE("the time in which the others train does not count") {
  join_deadline wait(true, 600s, t0);
  wait.pause(t0 + 10s);
  CHECK(wait.paused());
  CHECK_FALSE(wait.over(t0 + 5000s));
  CHECK(wait.until(t0 + 5000s) == t0 + 5000s + 590s);
  wait.resume(t0 + 5010s);
  CHECK_FALSE(wait.paused());
  CHECK(wait.until(t0 + 5100s) == t0 + 5600s);
  CHECK(wait.over(t0 + 5600s));
}

TEST_CASE("pauses add up, and a second word of the same kind changes nothing") {
  join_deadline wait(true, 600s, t0);
  wait.pause(t0 + 10s);
  wait.pause(t0 + 20s);
  wait.resume(t0 + 30s);
  wait.resume(t0 + 90s);
  CHECK(wait.until(t0) == t0 + 620s);
  wait.pause(t0 + 100s);
  wait.resume(t0 + 105s);
  CHECK(wait.until(t0) == t0 + 625s);
}

TEST_CASE("where members came together before this process asked, all of its time counts") {
  join_deadline wait(true, 600s, t0);
  wait.pause(t0 + 10s);
  wait.resume(t0 - 50s);
  CHECK(wait.until(t0 + 20s) == t0 + 600s);
}

TEST_CASE("where members do not change, nobody trains without this process") {
  join_deadline wait(false, 30s, t0);
  wait.pause(t0);
  CHECK_FALSE(wait.paused());
  CHECK(wait.over(t0 + 30s));
}

TEST_CASE("a member that nobody waits for has all the time") {
  const join_deadline wait;
  CHECK_FALSE(wait.over(t0 + std::chrono::hours(1000)));
}
