#include "messages/wire/reachability.hpp"

#include <catch2/catch.hpp>

#include "messages/wire/travelled_testing.hpp"

using namespace farandole;

TEST_CASE("messages about tested addresses arrive as they were sent") {
  const address_test test{{"10.0.0.1", "fd00::1"}, {{"10.0.0.2", 4711}, {"fd00::2", 65535}}, 10'000};
  const auto arrived = decode_address_test(travelled(encode(test)));
  REQUIRE(arrived);
  CHECK(*arrived == test);
  const address_report report{{{"10.0.0.1", 4711}, {"fd00::1", 0, "no port is free"}},
                              {{"10.0.0.2", 4712, "cannot connect: Connection refused"}}};
  const auto reported = decode_address_report(travelled(encode(report)));
  REQUIRE(reported);
  CHECK(*reported == report);
}

TEST_CASE("a test of more addresses than an agent dials at once is refused") {
  address_test test;
  test.dial.resize(most_tested_addresses);
  test.listen.resize(most_tested_addresses);
  CHECK(decode_address_test(encode(test)));
  test.dial.emplace_back();
  CHECK_FALSE(decode_address_test(encode(test)));
  test.dial.clear();
  test.listen.emplace_back();
  CHECK_FALSE(decode_address_test(encode(test)));
  address_report report;
  report.dialled.resize(most_tested_addresses + 1);
  CHECK_FALSE(decode_address_report(encode(report)));
  CHECK_FALSE(decode_address_report(encode(address_test{})));
}
