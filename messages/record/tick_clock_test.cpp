#include "messages/record/tick_clock.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

TEST_CASE("ticks of the steady clock are its nanoseconds") {
  const tick_clock clock(false);
  CHECK_FALSE(clock.uses_counter());
  const auto reading = clock.read();
  CHECK(reading.ticks == static_cast<std::uint64_t>(reading.steady.count()));
  const auto later = clock.now();
  CHECK(later >= reading.ticks);
}

TEST_CASE("ticks of this host's clock never go back on one thread, and a reading lies between them") {
  const auto clock = tick_clock::of_this_host();
  const auto before = clock.now();
  const auto reading = clock.read();
  const auto after = clock.now();
  CHECK(before <= reading.ticks);
  CHECK(reading.ticks <= after);
  CHECK(reading.system > 0ns);
}

TEST_CASE("two readings give the rate of the counter") {
  const tick_reading earlier{1'000, 50s, 1'700'000'000s}, later{3'001'000, 51s, 1'700'000'001s};
  const auto scale = tick_scale::between(earlier, later);
  CHECK(scale.since_origin(1'000) == 0ns);
  CHECK(scale.since_origin(3'001'000) == 1s);
  CHECK(scale.steady(1'501'000) == 50s + 500ms);
  CHECK(scale.system(6'001'000) == 1'700'000'002s);
}

TEST_CASE("ticks before the origin are negative times") {
  const auto scale = tick_scale::between({1'000'000, 5s, 9s}, {2'000'000, 6s, 10s});
  CHECK(scale.since_origin(500'000) == -500ms);
  CHECK(scale.steady(500'000) == 4500ms);
}

TEST_CASE("readings of the same moment give the rate of the steady clock") {
  const tick_reading reading{7'000, 7us, 100s};
  CHECK(tick_scale::between(reading, reading).since_origin(8'000) == 1us);
}
