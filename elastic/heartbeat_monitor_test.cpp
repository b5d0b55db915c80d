#include "elastic/heartbeat_monitor.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

using instant = heartbeat_monitor::time_point;
using silences = std::vector<silence>;

constexpr auto period = 100ms;

/// Looks once a period for the given time.
void look_for(heartbeat_monitor& monitor, instant& current_time, std::chrono::nanoseconds time) {
  for (auto end = current_time + time; current_time < end;)
    monitor.look(current_time += period);
}

} // namespace

TEST_CASE("a member is silent for as long as its counter has not changed, counted by this process's looks") {
  heartbeat_monitor monitor(period);
  instant current_time{};
  monitor.look(current_time);
  monitor.observe(1, 7);
  monitor.observe(2, 7);
  look_for(monitor, current_time, 500ms);
  monitor.observe(1, 8);
  monitor.observe(2, 7);
  CHECK(monitor.silent(1ms) == silences{{2, 500ms}});
  CHECK(monitor.silent(501ms).empty());
  look_for(monitor, current_time, 200ms);
  CHECK(monitor.silent(1ms) == silences{{1, 200ms}, {2, 700ms}});
  monitor.observe(2, 6); // any other number counts as a sign of life
  CHECK(monitor.silent(1ms) == silences{{1, 200ms}});
}

TEST_CASE("a member without any sign of life is silent from when it is first watched") {
  heartbeat_monitor monitor(period);
  instant current_time{};
  monitor.look(current_time);
  look_for(monitor, current_time, 1s);
  monitor.watch(3);
  look_for(monitor, current_time, 300ms);
  monitor.watch(3);
  CHECK(monitor.silent(1ms) == silences{{3, 300ms}});
  monitor.beat(3);
  CHECK(monitor.silent(1ms).empty());
}

TEST_CASE("a process that was stopped itself does not count the others as silent") {
  heartbeat_monitor monitor(period);
  instant current_time{};
  monitor.watch(1);
  monitor.look(current_time);
  monitor.look(current_time += 1h);
  CHECK(monitor.silent(1ms) == silences{{1, 2 * period}});
}

TEST_CASE("what this process observes itself counts before what it is told") {
  heartbeat_monitor monitor(period);
  instant current_time{};
  monitor.watch(1);
  monitor.look(current_time);
  look_for(monitor, current_time, 200ms);
  monitor.report(0, {{1, 5s}, {4, 3s}});
  monitor.report(2, {{4, 2s}, {5, 1s}});
  CHECK(monitor.silent(1ms) == silences{{1, 200ms}, {4, 3s}, {5, 1s}});
  CHECK(monitor.silent(2s) == silences{{4, 3s}});
  monitor.report(0, {}); // member 0 has heard of both since
  CHECK(monitor.silent(1ms) == silences{{1, 200ms}, {4, 2s}, {5, 1s}});
}

TEST_CASE("a member is not told its own reports, nor that it is silent itself") {
  heartbeat_monitor monitor(period);
  instant current_time{};
  monitor.watch(1);
  monitor.look(current_time);
  look_for(monitor, current_time, 200ms);
  monitor.report(0, {{4, 3s}});
  monitor.report(2, {{5, 1s}});
  CHECK(monitor.news_for(0, 1ms) == silences{{1, 200ms}, {5, 1s}});
  CHECK(monitor.news_for(2, 1ms) == silences{{1, 200ms}, {4, 3s}});
  CHECK(monitor.news_for(1, 1ms) == silences{{4, 3s}, {5, 1s}});
  CHECK(monitor.news_for(0, 1s) == silences{{5, 1s}});
}
