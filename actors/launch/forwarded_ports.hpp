// The ports of another host that its sshd forwards to addresses of this one (ssh -R). sshd chooses them, and ssh prints
// them: "Allocated port 40123 for remote forward to 10.0.0.1:4711".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace farandole {

/// An address of this host to which a port of another host is forwarded.
struct forward_target {
  std::string ip;
  std::uint16_t port = 0;

  friend bool operator==(const forward_target&, const forward_target&) = default;
};

class forwarded_ports {
public:
  explicit forwarded_ports(std::vector<forward_target> targets);

  /// Reads the next piece of ssh's output, which may end within a line. Returns the ports, in the order of the targets, when
  /// the last of them has become known.
  std::optional<std::vector<std::uint16_t>> take(std::string_view bytes);

private:
  bool read(std::string_view line);

  std::vector<forward_target> targets_;
  std::vector<std::uint16_t> ports_; ///< by target; 0: not known yet
  std::string begun_;                ///< the last line, if it has no end yet
};

/// The line that tells an agent of its forwarded ports, on its standard input.
std::string forwarded_line(const std::vector<std::uint16_t>& ports);
/// The ports in such a line without its end; empty if it is malformed or has another number of ports.
std::vector<std::uint16_t> ports_in_line(std::string_view line, std::size_t count);

} // namespace farandole
