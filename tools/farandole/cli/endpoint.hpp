// An address with a port, as users read and write it: "10.0.0.1:4711", "[fd00::1]:4711", "node:4711".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace farandole {

struct endpoint {
  std::string host; ///< name or numeric address
  std::uint16_t port = 0;

  /// Parses a text; the brackets around an IPv6 address may be missing, because the last colon precedes the port. Empty if
  /// the text is malformed.
  static std::optional<endpoint> parse(std::string_view text);
  /// With brackets around an IPv6 address.
  std::string text() const;
};

} // namespace farandole
