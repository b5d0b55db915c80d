// The messages by which the hosts of a job test their connections, as plain values; reachability.capnp defines their
// meaning. Decoding checks all fields.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/wire/envelope.hpp"

namespace farandole {

/// Greatest number of addresses in one list, and so of connections that an agent opens at once.
inline constexpr std::size_t most_tested_addresses = 64;

struct tested_address {
  std::string address; ///< numeric, without a scope
  std::uint16_t port = 0;
  std::string problem = {}; ///< why it cannot be used; empty: it can, or it was not tested yet

  friend bool operator==(const tested_address&, const tested_address&) = default;
};

struct address_test {
  std::vector<std::string> listen;  ///< at most most_tested_addresses
  std::vector<tested_address> dial; ///< likewise
  std::uint32_t timeout_ms = 0;     ///< from the dial of an address to the proof of the secret

  friend bool operator==(const address_test&, const address_test&) = default;
};

struct address_report {
  std::vector<tested_address> listening;
  std::vector<tested_address> dialled;

  friend bool operator==(const address_report&, const address_report&) = default;
};

envelope encode(const address_test& value);
envelope encode(const address_report& value);

expected<address_test> decode_address_test(const envelope& message);
expected<address_report> decode_address_report(const envelope& message);

} // namespace farandole
