// The address of a member's listener in its path address: "10.0.0.1:4711" or "[fd00::1]:4711".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "messages/values/error.hpp"

namespace farandole {

struct tcp_address {
  std::string ip;
  std::uint16_t port = 0;

  std::string text() const;
  /// Parses untrusted text from a peer.
  static expected<tcp_address> parse(std::string_view text);
  friend bool operator==(const tcp_address&, const tcp_address&) = default;
};

} // namespace farandole
