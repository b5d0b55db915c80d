#include "actors/rendezvous/this_host.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "collectives/transport/connections/interface_addresses.hpp"
#include "collectives/transport/connections/sockets.hpp"
#include "elastic/network_choice.hpp"
#include "messages/values/descriptor.hpp"

namespace farandole {

namespace {

std::string namespace_of(const char* kind) {
  std::array<char, 64> target{};
  auto length = readlink((std::string("/proc/self/ns/") + kind).c_str(), target.data(), target.size() - 1);
  return length > 0 ? std::string(target.data(), static_cast<std::size_t>(length)) : std::string(kind) + ":?";
}

/// An address of the interface, of this family if one is given; otherwise IPv4 if it has such an address.
expected<std::string> address_of_interface(const std::string& name, std::optional<ip_family> family) {
  const auto addresses = list_interface_addresses();
  if (!addresses)
    return addresses.error();
  const interface_address* found = nullptr;
  for (const auto& address : *addresses) {
    const bool fits = address.interface == name && !is_link_local(address.address) &&
                      (!family || family_of(address.address) == *family);
    if (fits && (found == nullptr || (!found->is_ipv4 && address.is_ipv4)))
      found = &address;
  }
  if (found != nullptr)
    return found->address;
  const auto* kind = !family ? "IP" : *family == ip_family::v4 ? "IPv4" : "IPv6";
  return error{error_kind::invalid_argument,
               "HOROVOD_GLOO_IFACE names interface \"" + name + "\", which has no " + kind + " address here"};
}

struct address_list_deleter {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using address_list = std::unique_ptr<addrinfo, address_list_deleter>;

/// Returns a code of getaddrinfo().
int look_up(const std::string& host, int flags, address_list& found) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags;
  addrinfo* list = nullptr;
  const auto code = getaddrinfo(host.c_str(), "9", &wanted, &list);
  found.reset(list);
  return code;
}

std::string first_wanted_interface(const settings& values) {
  const auto& wanted = values.text(setting::interface);
  return wanted.substr(0, wanted.find(','));
}

} // namespace

std::string host_identity(const settings& values) {
  if (auto& given = values.text(setting::host_id); !given.empty())
    return given;
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return boot + " " + namespace_of("ipc") + " " + namespace_of("net");
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

std::string host_name_of(const std::string& listed) {
  return listed == "localhost" ? host_name() : listed;
}

expected<std::string> own_address_towards(const std::string& remote_ip, const settings& values) {
  address_list remote;
  if (look_up(remote_ip, AI_NUMERICHOST | AI_NUMERICSERV, remote) != 0)
    return error{error_kind::invalid_argument, "\"" + remote_ip + "\" is no IP address"};
  if (!values.text(setting::interface).empty() && !is_loopback(remote_ip))
    return address_of_interface(first_wanted_interface(values), family_of(remote_ip));
  // Connecting a datagram socket sends nothing. It only looks up the route and selects the local address.
  const descriptor probe{socket(remote->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  if (!probe || connect(probe.get(), remote->ai_addr, remote->ai_addrlen) != 0 ||
      getsockname(probe.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0)
    return error{error_kind::unknown,
                 "no route to the rendezvous at " + remote_ip + ": " + std::strerror(errno)};
  return address_text(reinterpret_cast<const sockaddr*>(&own));
}

expected<std::string> resolve(const std::string& host) {
  address_list found;
  if (const auto code = look_up(host, 0, found); code != 0)
    return error{error_kind::invalid_argument,
                 "the name \"" + host + "\" has no IP address: " + gai_strerror(code)};
  const addrinfo* best = found.get();
  for (const auto* entry = best; entry != nullptr && best->ai_family != AF_INET; entry = entry->ai_next)
    if (entry->ai_family == AF_INET)
      best = entry;
  return address_text(best->ai_addr);
}

bool accepts_listeners(const std::string& ip) {
  return family_of(ip) == ip_family::v4 || open_listener(ip, 0);
}

expected<std::vector<host_address>> addresses_for_others() {
  const auto addresses = list_interface_addresses();
  if (!addresses)
    return addresses.error();
  std::vector<host_address> found;
  for (const bool ipv4 : {true, false})
    for (const auto& entry : *addresses)
      if (entry.is_ipv4 == ipv4 && entry.is_up && !entry.is_loopback && accepts_listeners(entry.address))
        found.push_back({entry.interface, entry.address});
  return found;
}

expected<std::string> address_of_wanted_interface(const settings& values) {
  return address_of_interface(first_wanted_interface(values), {});
}

} // namespace farandole
