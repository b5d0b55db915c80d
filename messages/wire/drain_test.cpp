#include "messages/wire/drain.hpp"

#include <catch2/catch.hpp>

#include "messages/wire/membership.hpp"
#include "messages/wire/travelled_testing.hpp"

using namespace farandole;

namespace {

constexpr address somewhere{2, 0, 1};

} // namespace

TEST_CASE("messages about planned departures arrive as they were sent") {
  const auto wish = decode_leaving(travelled(encode(somewhere, leaving{7, 4})));
  REQUIRE(wish);
  CHECK(*wish == leaving{7, 4});
  const drain asked{wire_version, {0, 3}, {"alpha", "beta"}, 12};
  const auto heard = decode_drain(travelled(encode(somewhere, asked)));
  REQUIRE(heard);
  CHECK(*heard == asked);
  const draining answer{"", {{3, 5, "alpha"}, {-1, 6, "beta"}}, true, 12};
  const auto told = decode_draining(travelled(encode(somewhere, answer)));
  REQUIRE(told);
  CHECK(*told == answer);
}

TEST_CASE("a drain in another wire version is read no further than the version") {
  drain asked;
  asked.wire_version = wire_version + 1;
  asked.ranks = {-4};
  const auto heard = decode_drain(travelled(encode(somewhere, asked)));
  REQUIRE(heard);
  CHECK(heard->wire_version == wire_version + 1);
  CHECK(heard->ranks.empty());
}

TEST_CASE("a drain or its answer that is out of range is refused") {
  CHECK_FALSE(decode_drain(encode(somewhere, drain{wire_version, {-1}, {}})));
  CHECK_FALSE(decode_drain(encode(somewhere, drain{wire_version, {member_limit}, {}})));
  CHECK_FALSE(decode_drain(encode(somewhere, drain{wire_version, {}, {std::string(5000, 'h')}})));
  CHECK_FALSE(decode_draining(encode(somewhere, draining{"", {{-2, 0, "a"}}, false})));
  CHECK_FALSE(decode_draining(encode(somewhere, draining{"", {{0, -1, "a"}}, false})));
  CHECK_FALSE(decode_drain(encode(somewhere, leaving{1})));
  CHECK_FALSE(decode_leaving(encode(somewhere, leaving{1, -2})));
}
