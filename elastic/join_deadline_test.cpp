#include "elastic/join_deadline.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

const join_deadline::time_point t0{std::chrono::hours(1)};

} // namespace

TEST_CASE("the deadline of init() counts from its start") {
  const join_deadline wait(true, 600s, t0);
  CHECK(wait.deadline(t0 + 100s) == t0 + 600s);
  CHECK_FALSE(wait.over(t0 + 600s - 1ns));
  CHECK(wait.over(t0 + 600s));
}

TEST_CASE("the time in which the other members train does not count") {
  join_deadline wait(true, 600s, t0);
  wait.pause(t0 + 10s);
  CHECK_FALSE(wait.over(t0 + 5000s));
  CHECK(wait.deadline(t0 + 5000s) == t0 + 5000s + 590s);
  wait.resume(t0 + 5010s);
  CHECK(wait.deadline(t0 + 5100s) == t0 + 5600s);
  CHECK(wait.over(t0 + 5600s));
}

TEST_CASE("pauses add up, and a repeated pause or resume changes nothing") {
  join_deadline wait(true, 600s, t0);
  wait.pause(t0 + 10s);
  wait.pause(t0 + 20s);
  wait.resume(t0 + 30s);
  wait.resume(t0 + 90s);
  CHECK(wait.deadline(t0) == t0 + 620s);
  wait.pause(t0 + 100s);
  wait.resume(t0 + 105s);
  CHECK(wait.deadline(t0) == t0 + 625s);
}

TEST_CASE("a resume from before the pause makes all of the time count") {
  join_deadline wait(true, 600s, t0);
  wait.pause(t0 + 10s);
  wait.resume(t0 - 50s);
  CHECK(wait.deadline(t0 + 20s) == t0 + 600s);
}

TEST_CASE("in a job that is not elastic pauses do not count") {
  join_deadline wait(false, 30s, t0);
  wait.pause(t0);
  CHECK(wait.deadline(t0 + 20s) == t0 + 30s);
  CHECK(wait.over(t0 + 30s));
}

TEST_CASE("a default deadline is never over") {
  const join_deadline wait;
  CHECK_FALSE(wait.over(t0 + std::chrono::hours(1000)));
}

TEST_CASE("the join timeout is the elastic timeout in an elastic job, else the start timeout") {
  auto values = settings::built_in();
  CHECK(join_timeout(values) == setting::start_timeout);
  CHECK_FALSE(values.assign(setting::elastic, "1", setting_source::environment));
  CHECK(join_timeout(values) == setting::elastic_timeout);
}
