#include "messages/values/port_range.hpp"

#include <charconv>

namespace farandole {

namespace {

std::optional<std::uint16_t> read_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto* end = text.data() + text.size();
  if (const auto read = std::from_chars(text.data(), end, port); read.ec != std::errc{} || read.ptr != end)
    return {};
  return port == 0 ? std::nullopt : std::optional(port);
}

} // namespace

std::optional<port_range> port_range::parse(std::string_view text) {
  if (text.empty())
    return port_range{};
  const auto dash = text.find('-');
  if (dash == std::string_view::npos)
    return {};
  const auto low = read_port(text.substr(0, dash));
  const auto high = read_port(text.substr(dash + 1));
  if (!low || !high || *low > *high)
    return {};
  return port_range{*low, *high};
}

std::vector<std::uint16_t> port_range::from(std::size_t start) const {
  if (any())
    return {0};
  const std::size_t count = std::size_t{highest} - lowest + 1;
  std::vector<std::uint16_t> ports;
  ports.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    ports.push_back(static_cast<std::uint16_t>(lowest + (start + i) % count));
  return ports;
}

std::string port_range::text() const {
  return any() ? std::string() : std::to_string(lowest) + "-" + std::to_string(highest);
}

} // namespace farandole
