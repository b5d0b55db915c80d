#include "elastic/blacklist.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

const blacklist::time_point start{};

} // namespace

TEST_CASE("without a cooldown a host stays on the list for good") {
  blacklist list;
  CHECK_FALSE(list.holds("a", start));
  CHECK(list.add("a", start, 0));
  CHECK(list.holds("a", start + std::chrono::hours(100000)));
  CHECK_FALSE(list.returns_at("a", start));
  CHECK_FALSE(list.next_return(start));
  CHECK_FALSE(list.holds("b", start));
}

TEST_CASE("the cooldown starts at the lowest time and doubles with each blacklisting, up to the highest") {
  blacklist list({{10s, 60s}});
  auto current_time = start;
  for (const auto wanted : {10s, 20s, 40s, 60s, 60s}) {
    CHECK(list.add("a", current_time, 0));
    CHECK(list.returns_at("a", current_time) == current_time + wanted);
    CHECK(list.holds("a", current_time + wanted - 1ns));
    current_time += wanted;
    CHECK_FALSE(list.holds("a", current_time));
    CHECK_FALSE(list.returns_at("a", current_time));
  }
}

TEST_CASE("the random part of a cooldown is less than the lowest time and stays within the range") {
  blacklist list({{10s, 25s}});
  list.add("a", start, 0.5);
  CHECK(list.returns_at("a", start) == start + 15s);
  list.add("a", start + 15s, 0.5);
  CHECK(list.returns_at("a", start + 15s) == start + 15s + 25s);
}

TEST_CASE("a host that is on the list is not blacklisted again") {
  blacklist list({{10s, 60s}});
  CHECK(list.add("a", start, 0));
  CHECK_FALSE(list.add("a", start + 5s, 0.9));
  CHECK(list.returns_at("a", start + 5s) == start + 10s);
  CHECK(list.add("a", start + 10s, 0));
  CHECK(list.returns_at("a", start + 10s) == start + 30s);
}

TEST_CASE("hosts are counted separately, and the next one to return is known") {
  blacklist list({{10s, 60s}});
  list.add("a", start, 0.9);
  list.add("b", start, 0.1);
  CHECK(list.next_return(start) == start + 11s);
  CHECK(list.next_return(start + 11s) == start + 19s);
  CHECK_FALSE(list.next_return(start + 19s));
}

TEST_CASE("a host that fails a thousand times waits no longer than the range allows") {
  blacklist list({{1s, 3600s}});
  auto current_time = start;
  for (int time = 0; time < 2000; ++time) {
    list.add("a", current_time, 0.999);
    current_time = *list.returns_at("a", current_time);
  }
  list.add("a", current_time, 0);
  CHECK(list.returns_at("a", current_time) == current_time + 3600s);
}

namespace {

const wall_time morning{std::chrono::seconds{1'800'000'000}};

/// The list of a process that takes over from `list`, when its steady clock is at `current_time` and the wall
/// clock at `wall`.
blacklist taken_over(const blacklist& list, blacklist::time_point current_time, wall_time wall,
                     std::optional<blacklist::cooldown> range) {
  blacklist next{range};
  next.restore(list.image(start + 5s, morning), current_time, wall);
  return next;
}

} // namespace

TEST_CASE("a restored blacklist keeps its hosts and their remaining time by the wall clock") {
  const std::optional<blacklist::cooldown> range{{10s, 60s}};
  blacklist list(range);
  list.add("a", start, 0);
  const auto current_time = start + std::chrono::hours(7);
  auto next = taken_over(list, current_time, morning + 2s, range);
  CHECK(next.returns_at("a", current_time) == current_time + 3s);
  CHECK(next.next_return(current_time) == current_time + 3s);
  CHECK_FALSE(next.holds("a", current_time + 3s));
  CHECK_FALSE(next.holds("b", current_time));
  // The restored list goes on counting.
  CHECK(next.add("a", current_time + 3s, 0));
  CHECK(next.returns_at("a", current_time + 3s) == current_time + 23s);
  CHECK_FALSE(taken_over(list, current_time, morning + 60s, range).holds("a", current_time));
}

TEST_CASE("a wall clock that was set back holds no host longer than the highest cooldown") {
  const std::optional<blacklist::cooldown> range{{10s, 60s}};
  blacklist list(range);
  list.add("a", start, 0);
  const auto next = taken_over(list, start, morning - std::chrono::hours(1000), range);
  CHECK(next.returns_at("a", start) == start + 60s);
}

TEST_CASE("a host that was blacklisted for good stays so unless the restored list has a cooldown") {
  blacklist list;
  list.add("a", start, 0);
  const auto same = taken_over(list, start, morning, {});
  CHECK(same.holds("a", start + std::chrono::hours(100000)));
  CHECK_FALSE(same.next_return(start));
  const auto kinder = taken_over(list, start, morning, {{10s, 60s}});
  CHECK(kinder.returns_at("a", start) == start + 60s);
}

TEST_CASE("a host that was blacklisted for a time returns even if there is no cooldown any more") {
  blacklist list({{10s, 60s}});
  list.add("a", start, 0);
  const auto next = taken_over(list, start, morning, {});
  CHECK(next.next_return(start) == start + 5s);
  CHECK_FALSE(next.holds("a", start + 5s));
}

TEST_CASE("the next host to return is the earliest, at any place in the list") {
  blacklist list({{10s, 60s}});
  list.add("a", start, 0.1);
  list.add("b", start, 0.9);
  list.add("c", start, 0.5);
  CHECK(list.next_return(start) == start + 11s);
  CHECK(list.next_return(start + 11s) == start + 15s);
}

TEST_CASE("a host of an earlier launcher is held no longer than the current range allows") {
  const wall_time wall{std::chrono::seconds{1'800'000'000}};
  blacklist list({{10s, 60s}});
  list.restore({{"a", 1, wall + 1000s, false}, {"b", 1, wall - 5s, false}}, start, wall);
  CHECK(list.returns_at("a", start) == start + 60s);
  CHECK_FALSE(list.holds("b", start));
}
