#include "collectives/transport/tcp/tcp_address.hpp"

#include <arpa/inet.h>

#include <charconv>

namespace farandole {
namespace {

bool is_address(const std::string& ip) {
  in6_addr room{};
  return ::inet_pton(AF_INET, ip.c_str(), &room) == 1 || ::inet_pton(AF_INET6, ip.c_str(), &room) == 1;
}

} // namespace

std::string tcp_address::text() const {
  const bool six = ip.find(':') != std::string::npos;
  return (six ? "[" + ip + "]" : ip) + ":" + std::to_string(port);
}

expected<tcp_address> tcp_address::parse(std::string_view text) {
  const error no_address{error_kind::precondition, "a member announced no address that the tcp path knows"};
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || text.size() > 80)
    return no_address;
  tcp_address found;
  const auto digits = text.substr(colon + 1);
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), found.port);
  if (problem != std::errc{} || end != digits.data() + digits.size() || found.port == 0)
    return no_address;
  auto ip = text.substr(0, colon);
  if (ip.size() > 2 && ip.front() == '[' && ip.back() == ']')
    ip = ip.substr(1, ip.size() - 2);
  found.ip = ip;
  if (found.ip.find('\0') != std::string::npos || !is_address(found.ip))
    return no_address;
  return found;
}

} // namespace farandole
