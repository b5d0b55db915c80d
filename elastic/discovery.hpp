// What a discovery script printed: one host a line, "name" or "name:slots". A script is written by people and
// asks services that fail, so anything may come out of it; nothing of a result is taken unless all of it is
// right, and what is wrong is told with its line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "elastic/host_slots.hpp"
#include "messages/values/error.hpp"

namespace farandole {

struct discovered_hosts {
  std::vector<host_slots> hosts;  ///< in the order of the lines; none twice
  std::vector<std::string> notes; ///< right, but worth a look: hosts that were printed twice
};

inline constexpr std::size_t most_discovery_lines = 10000;

/// Empty lines are skipped; a host that is printed twice gets the slots of both lines; one without slots has
/// `slots_per_host`. No lines at all is a result: there are no hosts.
expected<discovered_hosts> parse_discovery(std::string_view printed,
                                           std::optional<std::int32_t> slots_per_host);

} // namespace farandole
