#include "messages/values/backoff.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

TEST_CASE("each wait is twice as long as the previous one, up to the longest") {
  constexpr backoff waits{50ms, 1s};
  CHECK(waits.before_try(0) == 50ms);
  CHECK(waits.before_try(1) == 100ms);
  CHECK(waits.before_try(4) == 800ms);
  for (const int number : {5, 6, 100, 2'000'000'000})
    CHECK(waits.before_try(number) == 1s);
}

TEST_CASE("the random part makes a wait longer, but less than twice as long") {
  constexpr backoff waits{50ms, 1s};
  CHECK(waits.before_try(0, 0.5) == 75ms);
  CHECK(waits.before_try(9, 0.5) == 1500ms);
  CHECK(waits.before_try(9, 0.999) < 2s);
}
