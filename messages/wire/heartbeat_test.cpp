#include "messages/wire/heartbeat.hpp"

#include <catch2/catch.hpp>

#include "messages/wire/membership.hpp"
#include "messages/wire/travelled_testing.hpp"

using namespace farandole;
using namespace std::chrono_literals;

namespace {

constexpr address somewhere{2, 0, 1};

} // namespace

TEST_CASE("a heartbeat arrives as it was sent, in whole milliseconds") {
  const auto told = decode_heartbeat(travelled(encode(somewhere, heartbeat{{{0, 1500ms}, {7, 2500us}}})));
  REQUIRE(told);
  CHECK(*told == heartbeat{{{0, 1500ms}, {7, 2ms}}});
  const auto forever = decode_heartbeat(encode(somewhere, heartbeat{{{3, std::chrono::hours(24 * 365)}}}));
  REQUIRE(forever);
  CHECK(forever->silent.front().lasted == std::chrono::milliseconds(4'294'967'295));
}

TEST_CASE(
    "a question for the time and its answer arrive as they were sent, and impossible times are refused") {
  for (const auto& value : {clock_reading{-5s, false, {}, {}}, clock_reading{7s, true, -9s, -8999ms}}) {
    const auto told = decode_clock_reading(travelled(encode(somewhere, value)));
    REQUIRE(told);
    CHECK(*told == value);
  }
  CHECK_FALSE(decode_clock_reading(encode(somewhere, clock_reading{1s, true, 3s, 2s})));
  CHECK_FALSE(
      decode_clock_reading(encode(somewhere, clock_reading{std::chrono::nanoseconds::max(), false, {}, {}})));
  CHECK_FALSE(decode_clock_reading(encode(somewhere, heartbeat{})));
}

TEST_CASE("a heartbeat with ranks that are out of range or order is refused") {
  CHECK_FALSE(decode_heartbeat(encode(somewhere, heartbeat{{{-1, 1s}}})));
  CHECK_FALSE(decode_heartbeat(encode(somewhere, heartbeat{{{member_limit, 1s}}})));
  CHECK_FALSE(decode_heartbeat(encode(somewhere, heartbeat{{{2, 1s}, {2, 1s}}})));
  CHECK_FALSE(decode_heartbeat(encode(somewhere, greeting{})));
}
