#include <algorithm>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <catch2/catch.hpp>

#include "collectives/transport/connections/interface_addresses.hpp"

namespace farandole {

TEST_CASE("the loopback interface is listed with its address and flags") {
  const auto addresses = list_interface_addresses();
  REQUIRE(addresses);
  const auto loopback = std::find_if(addresses->begin(), addresses->end(),
                                     [](const auto& entry) { return entry.address == "127.0.0.1"; });
  REQUIRE(loopback != addresses->end());
  CHECK_FALSE(loopback->interface.empty());
  CHECK(loopback->is_ipv4);
  CHECK(loopback->is_up);
  CHECK(loopback->is_loopback);
}

TEST_CASE("an address is written as a number, without its port") {
  sockaddr_in ipv4{};
  ipv4.sin_family = AF_INET;
  ipv4.sin_port = htons(80);
  REQUIRE(::inet_pton(AF_INET, "10.1.2.3", &ipv4.sin_addr) == 1);
  CHECK(address_text(reinterpret_cast<const sockaddr*>(&ipv4)) == "10.1.2.3");
  sockaddr_in6 ipv6{};
  ipv6.sin6_family = AF_INET6;
  REQUIRE(::inet_pton(AF_INET6, "fe80::12", &ipv6.sin6_addr) == 1);
  CHECK(address_text(reinterpret_cast<const sockaddr*>(&ipv6)) == "fe80::12");
  sockaddr_un local{};
  local.sun_family = AF_UNIX;
  CHECK(address_text(reinterpret_cast<const sockaddr*>(&local)).empty());
}

} // namespace farandole
