#include "actors/rendezvous/this_host.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "collectives/transport/connections/interface_addresses.hpp"

namespace farandole {

namespace {

std::string namespace_of(const char* kind) {
  std::array<char, 64> target{};
  auto length = readlink((std::string("/proc/self/ns/") + kind).c_str(), target.data(), target.size() - 1);
  return length > 0 ? std::string(target.data(), static_cast<std::size_t>(length)) : std::string(kind) + ":?";
}

expected<std::string> address_of_interface(const std::string& name) {
  const auto addresses = list_interface_addresses();
  if (!addresses)
    return addresses.error();
  for (const auto& address : *addresses)
    if (address.is_ipv4 && address.interface == name)
      return address.address;
  return error{error_kind::invalid_argument,
               "HOROVOD_GLOO_IFACE names interface \"" + name + "\", which has no IPv4 address here"};
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

expected<std::string> own_address_towards(const std::string& remote_ip, const settings& values) {
  // Connecting a datagram socket sends nothing. It only looks up the route and selects the local address.
  sockaddr_in remote{};
  remote.sin_family = AF_INET;
  remote.sin_port = htons(9);
  if (inet_pton(AF_INET, remote_ip.c_str(), &remote.sin_addr) != 1)
    return error{error_kind::invalid_argument, "\"" + remote_ip + "\" is no IPv4 address"};
  auto& wanted = values.text(setting::interface);
  auto loopback = (ntohl(remote.sin_addr.s_addr) >> 24) == 127;
  if (!wanted.empty() && !loopback)
    return address_of_interface(wanted.substr(0, wanted.find(',')));
  auto probe = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in own{};
  socklen_t length = sizeof own;
  auto routed = probe >= 0 && connect(probe, reinterpret_cast<sockaddr*>(&remote), sizeof remote) == 0 &&
                getsockname(probe, reinterpret_cast<sockaddr*>(&own), &length) == 0;
  auto reason = std::string(std::strerror(errno));
  if (probe >= 0)
    close(probe);
  if (!routed)
    return error{error_kind::unknown, "no route to the rendezvous at " + remote_ip + ": " + reason};
  return address_text(reinterpret_cast<const sockaddr*>(&own));
}

expected<std::string> resolve(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (auto code = getaddrinfo(host.c_str(), nullptr, &wanted, &found); code != 0)
    return error{error_kind::invalid_argument,
                 "the name \"" + host + "\" has no IPv4 address: " + gai_strerror(code)};
  auto text = address_text(found->ai_addr);
  freeaddrinfo(found);
  return text;
}

expected<std::vector<host_address>> addresses_for_others() {
  const auto addresses = list_interface_addresses();
  if (!addresses)
    return addresses.error();
  std::vector<host_address> found;
  for (const auto& entry : *addresses)
    if (entry.is_ipv4 && entry.is_up && !entry.is_loopback)
      found.push_back({entry.interface, entry.address});
  return found;
}

expected<std::string> address_for_others(const settings& values) {
  if (auto& wanted = values.text(setting::interface); !wanted.empty())
    return address_of_interface(wanted.substr(0, wanted.find(',')));
  const auto addresses = list_interface_addresses();
  if (!addresses)
    return addresses.error();
  for (const auto& address : *addresses)
    if (address.is_ipv4 && address.is_up && !address.is_loopback)
      return address.address;
  return error{error_kind::unknown,
               "no network interface that is up has an IPv4 address for processes on other hosts; name one "
               "with HOROVOD_GLOO_IFACE"};
}

expected<std::string> address_for_others(const settings& values, const std::string& known_host) {
  if (!values.text(setting::interface).empty())
    return address_for_others(values);
  auto remote = resolve(known_host);
  if (!remote)
    return remote.error();
  auto own = own_address_towards(*remote, values);
  if (!own || own->rfind("127.", 0) != 0)
    return own;
  auto outward = address_for_others(values);
  return outward ? outward : own;
}

} // namespace farandole
