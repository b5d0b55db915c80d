// The path between hosts that needs nothing but TCP and the job's secret. Every connection is authenticated
// and encrypted (docs/decisions/0025-authenticated-encrypted-tcp-between-hosts.md). p2p_path.hpp moves the bundles.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/transport/p2p/p2p_path.hpp"
#include "messages/values/port_range.hpp"

namespace farandole {

struct path_setup;

struct tcp_options : p2p_options {
  std::string secret; ///< the job's secret
  std::uint64_t generation = 0;
  std::uint32_t set = 0;
  std::uint32_t cross_host_group =
      0; ///< 0: all members of the process set; else a cross-host group, numbered from 1
  /// Address of this member's network interface. The listener is bound to it, so other interfaces cannot
  /// reach it.
  std::string ip = "127.0.0.1";
  port_range ports; ///< of the listener
  /// Whether members of higher rank connect to this one. The highest rank has no listener.
  bool listens = true;
  /// Called by the lane's thread during connect() with the member that is not connected yet and the reason,
  /// each time that this text changes; at the end with an empty text. May be null.
  std::function<void(const std::string& missing)> meeting_news = {};
  /// Global ranks by rank within the path, for error texts; empty: the same numbers.
  std::vector<std::int32_t> global_ranks;
  /// Whether a wait may spin for some microseconds before it sleeps (futex_wait.hpp decides).
  bool spins = false;
};

/// Opens a path. Its listener, if it has one, accepts connections; the path itself connects to no member
/// before connect(). Its destructor sends goodbyes, for at most half a second.
expected<std::unique_ptr<p2p_path>> open_tcp_path(const tcp_options& options);

/// Opens a path between the members with these ranks in the process set: all of them (column 0), or a
/// cross-host group.
expected<std::unique_ptr<p2p_path>> open_tcp_between(const path_setup& setup,
                                                     std::span<const std::int32_t> ranks,
                                                     std::uint32_t cross_host_group);

expected<std::unique_ptr<path>> open_tcp(const path_setup& setup);

} // namespace farandole
