#include "elastic/retry_delay.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

TEST_CASE("the first failure is retried at once, and later ones after growing delays") {
  CHECK(retry_delay(1, 0.9) == 0ns);
  CHECK(retry_delay(2, 0) == 100ms);
  CHECK(retry_delay(2, 0.5) == 150ms);
  CHECK(retry_delay(3, 0) == 200ms);
  CHECK(retry_delay(7, 0) == 3200ms);
}

TEST_CASE("no delay is longer than ten seconds, after any number of failures") {
  for (const int failures : {8, 9, 100, 1'000'000}) {
    CHECK(retry_delay(failures, 0) == 5s);
    CHECK(retry_delay(failures, 0.999) < 10s);
  }
}
