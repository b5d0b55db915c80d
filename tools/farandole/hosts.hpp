// The placement of processes on hosts: parses host lists, and assigns ranks to their slots.
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

/// Parses "h1:2,h2:4,[::1]:2". A host that is named twice keeps its first position and gets the slots of both
/// entries.
expected<std::vector<host_slots>> parse_hosts(std::string_view list);
/// Parses lines "name slots=2", "name slots=2 max_slots=4" (Open MPI) or "name:2" (MPICH). Empty lines, comments (#)
/// and a byte order mark are skipped. The launcher never starts more workers than `slots`, so `max_slots` has no
/// effect, but must not be smaller. Errors begin with the name of the file and the number of the line.
expected<std::vector<host_slots>> parse_hostfile(std::string_view content, const std::string& file);

/// One process, its host and its ranks.
struct placement {
  std::int32_t rank = 0;
  std::string host;
  std::int32_t local_rank = 0;
  std::int32_t local_size = 0;
  std::int32_t cross_rank = 0; ///< number of the host among those that have this local rank
  std::int32_t cross_size = 0;

  friend bool operator==(const placement&, const placement&) = default;
};

/// Returns an identifier of the machine that a host name refers to: the same text for all names of one machine.
using machine_lookup = std::function<std::string(const std::string& host)>;

/// Places processes in the first `processes` slots, host by host. Local and cross ranks are counted by machine,
/// as hvd.local_rank() counts by host identity. Without a lookup, every host name is a machine of its own.
expected<std::vector<placement>> place(std::span<const host_slots> hosts, std::int32_t processes,
                                       const machine_lookup& machine_of = {});

/// Whether a host whose own name is `own` has this name: in any letter case, with or without a final dot, and also
/// without the domain.
bool is_name_of(std::string_view name, std::string_view own);

/// Whether a name or an address refers to this machine. Calls the resolver, so it may block.
bool is_this_host(const std::string& name);

/// A notice for each machine that the job's hosts name twice.
std::vector<std::string> machines_with_two_names(std::span<const host_slots> hosts,
                                                 const machine_lookup& machine_of);

} // namespace farandole
