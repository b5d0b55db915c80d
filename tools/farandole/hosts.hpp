// Which processes run where: host lists as people write them, and the places they come to.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "elastic/host_slots.hpp"
#include "messages/values/error.hpp"

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

/// Names the machine that a host name leads to: names of one machine give the same text.
using machine_lookup = std::function<std::string(const std::string& host)>;

/// The first `processes` slots, host by host. Local and cross ranks count by machine, as hvd.local_rank()
/// does by host identity; without a lookup, every host name is a machine of its own.
expected<std::vector<placement>> place(std::span<const host_slots> hosts, std::int32_t processes,
                                       const machine_lookup& machine_of = {});

/// Whether a name or an address leads to this machine. Asks the resolver, so it may block.
bool is_this_host(const std::string& name);

/// A machine_lookup: one text for all names of this machine; other names stand for themselves. May block.
std::string machine_of_host(const std::string& name);

} // namespace farandole
