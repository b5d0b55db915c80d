// The ports on which a process may listen, because firewalls let only these pass.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace farandole {

/// All ports from `lowest` to `highest`. By default the system picks any free port.
struct port_range {
  std::uint16_t lowest = 0; ///< 0: any port
  std::uint16_t highest = 0;

  /// Parses "LOWEST-HIGHEST", with ports from 1 to 65535; an empty text is the default. Empty if it is neither.
  static std::optional<port_range> parse(std::string_view text);

  bool any() const { return lowest == 0; }
  /// The ports in the order in which a process tries them: ascending from a port that `start` selects, and then from
  /// the lowest one. Processes with different values of `start` rarely try the same port first.
  std::vector<std::uint16_t> from(std::size_t start) const;
  std::string text() const; ///< as parsed

  friend bool operator==(const port_range&, const port_range&) = default;
};

} // namespace farandole
