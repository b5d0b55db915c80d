#include "tools/farandole/cli/endpoint.hpp"

#include <charconv>

namespace farandole {

std::optional<endpoint> endpoint::parse(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos)
    return std::nullopt;
  auto host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  endpoint found{std::string(host), 0};
  const auto* end = text.data() + text.size();
  const auto [last, problem] = std::from_chars(text.data() + colon + 1, end, found.port);
  if (host.empty() || problem != std::errc{} || last != end || found.port == 0)
    return std::nullopt;
  return found;
}

std::string endpoint::text() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

} // namespace farandole
