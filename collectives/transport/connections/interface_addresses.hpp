// The addresses of this host's network interfaces, as text. No other code calls getifaddrs().
#pragma once

#include <string>
#include <vector>

#include "messages/values/error.hpp"

struct sockaddr;

namespace farandole {

/// One address of one interface. An interface with several addresses has an entry for each.
struct interface_address {
  std::string interface; ///< "eth0"
  std::string address;   ///< numeric: "10.0.0.1" or "fe80::1", without a scope
  bool is_ipv4 = false;
  bool is_up = false;
  bool is_loopback = false;
};

/// All IPv4 and IPv6 addresses, in the system's order. Fails if the system cannot list the interfaces.
expected<std::vector<interface_address>> list_interface_addresses();

/// The numeric form of an IPv4 or IPv6 address, without port and scope; empty for any other family.
std::string address_text(const sockaddr* address);

} // namespace farandole
