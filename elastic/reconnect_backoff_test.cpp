#include "elastic/reconnect_backoff.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

TEST_CASE("calls to a lost peer get rarer, and stop after the time limit") {
  reconnect_backoff calls(10s);
  reconnect_backoff::time_point current_time{};
  CHECK_FALSE(calls.searching());
  CHECK(calls.next(current_time, 0) == 50ms);
  CHECK(calls.searching());
  CHECK(calls.next(current_time += 1s, 0) == 100ms);
  CHECK(calls.next(current_time, 0.5) == 300ms);
  for (int i = 0; i < 5; ++i)
    calls.next(current_time, 0);
  CHECK(calls.next(current_time += 8s, 0.5) == 1500ms);
  CHECK_FALSE(calls.next(current_time += 1s, 0));
}

TEST_CASE("an unknown process in the peer's place ends the search before the first contact only") {
  reconnect_backoff calls(10s);
  CHECK(calls.in_vain(true));
  CHECK_FALSE(calls.in_vain(false));
  calls.met();
  CHECK_FALSE(calls.in_vain(true));
  reconnect_backoff::time_point current_time{};
  CHECK(calls.next(current_time, 0) == 50ms);
  calls.met();
  CHECK(calls.next(current_time, 0) == 100ms); // met() is not found(): the backoff goes on
}

TEST_CASE("a peer that was found and lost again is called soon again") {
  reconnect_backoff calls(10s);
  reconnect_backoff::time_point current_time{};
  calls.next(current_time, 0);
  calls.found();
  CHECK_FALSE(calls.searching());
  CHECK(calls.next(current_time + 60s, 0) == 50ms);
}
