#include "collectives/transport/connections/interface_addresses.hpp"

#include <cerrno>
#include <cstring>
#include <memory>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace farandole {

expected<std::vector<interface_address>> list_interface_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0)
    return error{error_kind::unknown,
                 std::string("the network interfaces cannot be listed: ") + std::strerror(errno)};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(list,
                                                           [](ifaddrs* entry) { ::freeifaddrs(entry); });
  std::vector<interface_address> addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr)
      continue;
    auto text = address_text(entry->ifa_addr);
    if (!text.empty())
      addresses.push_back({.interface = entry->ifa_name,
                           .address = std::move(text),
                           .is_ipv4 = entry->ifa_addr->sa_family == AF_INET,
                           .is_up = (entry->ifa_flags & IFF_UP) != 0,
                           .is_loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return addresses;
}

std::string address_text(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET)
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  else if (address->sa_family == AF_INET6)
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text, sizeof text);
  return text;
}

} // namespace farandole
