// Parses the output of a host discovery script: one host per line, "name" or "name:slots". Scripts are
// written by users and call services that fail, so the output may be any text. A result is accepted only as a
// whole: one malformed line rejects all of it, and the error quotes that line.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "elastic/host_slots.hpp"
#include "messages/values/error.hpp"

namespace farandole {

struct discovered_hosts {
  std::vector<host_slots> hosts;  ///< in the order of the lines; none twice
  std::vector<std::string> notes; ///< valid, but suspicious: hosts that were printed twice
  std::set<std::string> remote =
      {}; ///< those of the hosts that are other machines; not set by parse_discovery()
};

inline constexpr std::size_t most_discovery_lines = 10000;

/// Empty lines and comments (#) are skipped. A host that is printed twice gets the slots of both lines. A host without a
/// number of slots gets `slots_per_host`. Empty output is a valid result: there are no hosts.
expected<discovered_hosts> parse_discovery(std::string_view printed,
                                           std::optional<std::int32_t> slots_per_host);

} // namespace farandole
