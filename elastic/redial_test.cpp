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

TEST_CASE("who was found and goes away again is called soon again") {
  redial calls(10s);
  redial::time_point now{};
  calls.next(now, 0);
  calls.found();
  CHECK_FALSE(calls.searching());
  CHECK(calls.next(now + 60s, 0) == 50ms);
}
