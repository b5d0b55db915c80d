// Finds the address at which this process reaches the rendezvous, where it has several: a host in several networks does
// not know which of them the other hosts can reach.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "actors/event_loop/link.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Connects to all these addresses at once, and returns the first at which a process proves that it knows the secret of
/// `links`. All connections are then closed. The error names every address with the reason. Blocks at most for the
/// connect timeout of `links`: must not be called on the loop.
expected<std::string> find_reachable_address(const std::vector<std::string>& ips, std::uint16_t port,
                                             const link_settings& links);

} // namespace farandole
