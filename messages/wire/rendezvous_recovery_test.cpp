#include "messages/wire/rendezvous_recovery.hpp"

#include <catch2/catch.hpp>

#include "messages/wire/travelled_testing.hpp"

using namespace farandole;

namespace {

constexpr address somewhere{2, 0, 1};

} // namespace

TEST_CASE("messages after a rendezvous has restarted arrive as they were sent") {
  const returning back{wire_version, 3, 1, 4, "boot-1:ipc:net", 1234, 6};
  CHECK(*decode_returning(travelled(encode(somewhere, back))) == back);
  const resumed answer{3, 7, 2, true};
  CHECK(*decode_resumed(travelled(encode(somewhere, answer))) == answer);
  CHECK(decode_superseded(travelled(encode(somewhere, superseded{9})))->epoch == 9);
}

TEST_CASE("messages between a launcher and a rendezvous arrive as they were sent") {
  const slot_report report{
      wire_version,
      11,
      6,
      {{0, false, false, {}}, {1, true, true, "was killed by signal 9"}},
      true,
      {{"alpha", 2, wall_time{std::chrono::seconds{1'800'000'000}}, false}, {"beta", 1, {}, true}}};
  CHECK(*decode_slot_report(travelled(encode(somewhere, report))) == report);
  const formed news{3, 7, {0, 2, 5}};
  CHECK(*decode_formed(travelled(encode(somewhere, news))) == news);
}

TEST_CASE("a returning message in another wire version is read no further than the version") {
  auto back = returning{wire_version + 1, 0, -1, -1, "", 0, 0};
  REQUIRE(decode_returning(encode(somewhere, back)));
  back.wire_version = wire_version;
  CHECK_FALSE(decode_returning(encode(somewhere, back)));
}

TEST_CASE("invalid numbers are refused") {
  CHECK_FALSE(decode_resumed(encode(somewhere, resumed{0, 7, 2, true})));
  CHECK_FALSE(decode_formed(encode(somewhere, formed{3, 7, {}})));
  CHECK_FALSE(decode_slot_report(
      encode(somewhere, slot_report{wire_version, 1, 1, {{-1, false, false, {}}}, false, {}})));
  CHECK_FALSE(decode_formed(encode(somewhere, superseded{9})));
}

TEST_CASE("the text of an epoch has its life and its random number") {
  CHECK(epoch_text((3ULL << 32U) + 0x1f0c22aa) == "3.1f0c22aa");
}

TEST_CASE("invalid failed hosts are refused") {
  const auto refuses = [](std::vector<failed_host> hosts) {
    const bool in_report =
        !decode_slot_report(encode(somewhere, slot_report{wire_version, 1, 1, {}, false, hosts}));
    CHECK(in_report == !decode_failed_hosts(encode(hosts)));
    return in_report;
  };
  const wall_time when{std::chrono::seconds{1'800'000'000}};
  CHECK_FALSE(refuses({}));
  CHECK_FALSE(refuses({{"a", 1, when, false}, {"b", 1, when, false}}));
  CHECK(refuses({{"b", 1, when, false}, {"a", 1, when, false}}));
  CHECK(refuses({{"a", 1, when, false}, {"a", 1, when, false}}));
  CHECK(refuses({{"a", 0, when, false}}));
  CHECK(refuses({{"a", 1, wall_time::max(), false}}));
  CHECK(refuses({{"a", 1, wall_time::min(), false}}));
  CHECK(refuses({{std::string(5000, 'a'), 1, when, false}}));
}
