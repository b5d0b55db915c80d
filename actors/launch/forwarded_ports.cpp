#include "actors/launch/forwarded_ports.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "actors/launch/line_ends.hpp"

namespace farandole {

namespace {

constexpr std::size_t longest_line = 200; ///< bytes; no line about a port is longer

/// Reads a port at the beginning of the text, and removes it. 0 if there is none.
std::uint16_t take_port(std::string_view& text) {
  std::uint16_t port = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (problem != std::errc{})
    return 0;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return port;
}

} // namespace

forwarded_ports::forwarded_ports(std::vector<forward_target> targets)
    : targets_(std::move(targets)), ports_(targets_.size()) {}

std::optional<std::vector<std::uint16_t>> forwarded_ports::take(std::string_view bytes) {
  line_ends ends(bytes);
  bool is_complete = false;
  for (std::size_t begin = 0; begin < bytes.size();) {
    const auto end = ends.next(begin);
    const auto piece = bytes.substr(begin, end - begin);
    begun_ += piece.substr(0, longest_line - std::min(longest_line, begun_.size()));
    if (end == std::string_view::npos)
      break;
    is_complete = read(std::exchange(begun_, {})) || is_complete;
    begin = end + 1;
  }
  return is_complete ? std::optional(ports_) : std::nullopt;
}

/// Whether this line makes the ports complete.
bool forwarded_ports::read(std::string_view line) {
  constexpr std::string_view beginning = "Allocated port ";
  if (!line.starts_with(beginning))
    return false;
  line.remove_prefix(beginning.size());
  const auto port = take_port(line);
  for (std::size_t i = 0; i < targets_.size(); ++i)
    if (port != 0 && ports_[i] == 0 &&
        line == " for remote forward to " + targets_[i].ip + ":" + std::to_string(targets_[i].port)) {
      ports_[i] = port;
      return std::ranges::find(ports_, 0) == ports_.end();
    }
  return false;
}

std::string forwarded_line(const std::vector<std::uint16_t>& ports) {
  std::string line;
  for (const auto port : ports)
    line += (line.empty() ? "" : " ") + std::to_string(port);
  return line + "\n";
}

std::vector<std::uint16_t> ports_in_line(std::string_view line, std::size_t count) {
  std::vector<std::uint16_t> ports;
  for (;;) {
    ports.push_back(take_port(line));
    if (ports.back() == 0 || ports.size() > count)
      return {};
    if (line.empty())
      return ports.size() == count ? ports : std::vector<std::uint16_t>();
    if (line.front() != ' ')
      return {};
    line.remove_prefix(1);
  }
}

} // namespace farandole
