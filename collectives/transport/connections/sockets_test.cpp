#include "collectives/transport/connections/sockets.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace farandole {

TEST_CASE("a listener takes a free port of its range") {
  auto first = open_listener("127.0.0.1", 0);
  REQUIRE(first);
  const auto low = port_of(*first);
  const port_range ports{low, static_cast<std::uint16_t>(std::min(65535, low + 1000))};
  auto second = open_listener("127.0.0.1", ports);
  REQUIRE(second);
  CHECK(port_of(*second) > low);
  CHECK(port_of(*second) <= ports.highest);
}

TEST_CASE("without a free port in the range, the error names the range and the process that uses it") {
  auto first = open_listener("127.0.0.1", 0);
  REQUIRE(first);
  const auto port = port_of(*first);
  auto second = open_listener("127.0.0.1", port_range{port, port});
  REQUIRE_FALSE(second);
  const auto number = std::to_string(port);
  CHECK_THAT(second.error().text, Catch::Contains("all ports of FARANDOLE_PORT_RANGE=" + number + "-" +
                                                  number + " are in use (" + number + " by ") &&
                                      Catch::Contains("(process " + std::to_string(::getpid()) + ")"));
}

TEST_CASE("listeners at several addresses have one port, which is free on all of them") {
  const std::vector<std::string> ips{"127.0.0.1", "127.0.0.2"};
  for (int round = 0; round < 20; ++round) {
    auto opened = open_listeners(ips, port_range{});
    REQUIRE(opened);
    REQUIRE(opened->size() == 2);
    CHECK(port_of(opened->front()) == port_of(opened->back()));
  }
  auto taken = open_listener("127.0.0.2", 0);
  REQUIRE(taken);
  const auto low = port_of(*taken);
  auto opened = open_listeners(ips, port_range{low, static_cast<std::uint16_t>(std::min(65535, low + 1000))});
  REQUIRE(opened);
  CHECK(port_of(opened->front()) != low);
  CHECK_FALSE(open_listeners(ips, port_range{low, low}));
}

TEST_CASE("an address that is not this host's is an error that has nothing to do with the range") {
  const auto listener = open_listener("192.0.2.1", port_range{40960, 41215});
  REQUIRE_FALSE(listener);
  CHECK_THAT(listener.error().text, Catch::StartsWith("cannot listen on 192.0.2.1:"));
}

} // namespace farandole
