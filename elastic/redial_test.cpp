#include "elastic/redial.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

TEST_CASE("who went away is called soon, then more seldom, and at last not any more") {
  redial calls(10s);
  redial::time_point now{};
  CHECK_FALSE(calls.searching());
  CHECK(calls.next(now, 0) == 50ms);
  CHECK(calls.searching());
  CHECK(calls.next(now += 1s, 0) == 100ms);
  CHECK(calls.next(now, 0.5) == 300ms);
  for (int i = 0; i < 5; ++i)
    calls.next(now, 0);
  CHECK(calls.next(now += 8s, 0.5) == 1500ms);
  CHECK_FALSE(calls.next(now += 1s, 0));
}

TEST_CASE("a stranger in the place of whoever is called ends the search before the first contact only") {
  redial calls(10s);
  CHECK(calls.in_vain(true));
  CHECK_FALSE(calls.in_vain(false));
  calls.met();
  CHECK_FALSE(calls.in_vain(true));
  redial::time_point now{};
  CHECK(calls.next(now, 0) == 50ms);
  calls.met();
  CHECK(calls.next(now, 0) == 100ms); // met is not found: the backoff goes on
}

TEST_CASE("who was found and goes away again is called soon again") {
  redial calls(10s);
  redial::time_point now{};
  calls.next(now, 0);
  calls.found();
  CHECK_FALSE(calls.searching());
  CHECK(calls.next(now + 60s, 0) == 50ms);
}
