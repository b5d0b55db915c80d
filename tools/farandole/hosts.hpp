// Which processes run where: host lists as people write them, and the places they come to.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "elastic/host_slots.hpp"
#include "messages/error.hpp"

namespace farandole {

/// "h1:2,h2:4,[::1]:2". A host that is named twice keeps its first place and gets the slots of both.
expected<std::vector<host_slots>> parse_hosts(std::string_view list);
/// Lines "name slots=2"; empty lines and comments (#) are skipped.
expected<std::vector<host_slots>> parse_hostfile(std::string_view content);

/// One process and its numbers.
struct placement {
  std::int32_t rank = 0;
  std::string host;
  std::int32_t local_rank = 0;
  std::int32_t local_size = 0;
  std::int32_t cross_rank = 0; ///< among the hosts that have this local rank
  std::int32_t cross_size = 0;

  friend bool operator==(const placement&, const placement&) = default;
};

/// The first `processes` slots, host by host.
expected<std::vector<placement>> place(std::span<const host_slots> hosts, std::int32_t processes);

/// Whether a name or an address leads to this machine. Asks the resolver, so it may block.
bool is_this_host(const std::string& name);

} // namespace farandole
