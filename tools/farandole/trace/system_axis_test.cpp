#include "tools/farandole/trace/system_axis.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

TEST_CASE("times between two readings of a clock are placed in proportion") {
  // The system clock was slowed down by 100 parts per million for 100 s.
  const system_axis axis({0, 0s, 1000s}, 5s, {1, 0s, 1100s - 10ms}, 105s);
  CHECK(axis.clock_change() == 0s);
  CHECK(axis.at(1000s) == 5s);
  CHECK(axis.at(1100s - 10ms) == 105s);
  CHECK(std::chrono::abs(axis.at(1050s - 5ms) - 55s) < 10ns);
  CHECK(axis.at(999s) < 5s);
}

TEST_CASE("a clock that was set is right at the later reading") {
  const system_axis axis({0, 0s, 1000s}, 5s, {1, 0s, 1130s}, 105s);
  CHECK(axis.clock_change() == 30s);
  CHECK(axis.at(1130s) == 105s);
  CHECK(axis.at(1129s) == 104s);
  const system_axis backwards({0, 0s, 1000s}, 5s, {1, 0s, 900s}, 105s);
  CHECK(backwards.clock_change() == -200s);
  CHECK(backwards.at(900s) == 105s);
}

TEST_CASE("readings of almost the same moment give no rate") {
  const system_axis axis({0, 0s, 1000s}, 5s, {1, 0s, 1000s + 20ms}, 5s + 10ms);
  CHECK(axis.clock_change() == 0s);
  CHECK(axis.at(1001s) == 6s);
}
