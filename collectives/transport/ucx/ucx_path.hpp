// The path between hosts whose messages UCX carries (p2p_path.hpp describes how bundles are moved).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/transport/p2p/p2p_path.hpp"
#include "messages/values/port_range.hpp"

namespace farandole {

struct path_setup;

struct ucx_options : p2p_options {
  std::uint64_t generation = 0;
  std::uint32_t set = 0;
  /// Global ranks by rank within the set, for error texts; if empty, the ranks within the set are used.
  std::vector<std::int32_t> global_ranks;
  /// Whether the user trusts every process that can reach the workers. If so, UCX may use TCP
  /// (ucx_networks.hpp). The user's values of UCX_TLS and UCX_NET_DEVICES replace the defaults.
  bool trusted_network = false;
  /// Address of the interface that UCX uses; empty: every interface.
  std::string ip;
  port_range ports; ///< on which UCX listens, where it uses TCP
  /// Whether a wait may spin for some microseconds before it sleeps (decided by futex_wait.hpp).
  bool spins = false;
};

/// Opens a path that has an address and is not connected yet. `unimplemented` if UCX is missing. Its
/// destructor sends goodbyes and flushes for at most half a second.
expected<std::unique_ptr<p2p_path>> open_ucx_path(const ucx_options& options);

expected<std::unique_ptr<path>> open_ucx(const path_setup& setup);

} // namespace farandole
