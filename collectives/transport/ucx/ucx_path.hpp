// The path between hosts whose messages are carried by UCX (exchange_path.hpp says how bundles move).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/transport/p2p/p2p_path.hpp"

namespace farandole {

struct path_setup;

struct ucx_options : p2p_options {
  std::uint64_t generation = 0;
  std::uint32_t set = 0;
  /// Global ranks by rank within the set, for error texts; empty: the same numbers.
  std::vector<std::int32_t> global_ranks;
  /// Whether the user trusts every process that can reach the workers: UCX may use TCP then
  /// (ucx_networks.hpp). UCX_TLS and UCX_NET_DEVICES, where the user has set them, replace the defaults.
  bool trusted_network = false;
  /// Address of the interface that UCX uses; empty: every interface.
  std::string ip;
  /// Whether a wait may keep its core busy for some microseconds before it sleeps (waiting.hpp decides).
  bool spins = false;
};

/// A path that can be reached, and reaches nobody yet. `unimplemented` where UCX is missing. Its destructor
/// says goodbye and flushes for at most half a second.
expected<std::unique_ptr<p2p_path>> open_ucx_path(const ucx_options& options);

expected<std::unique_ptr<path>> open_ucx(const path_setup& setup);

} // namespace farandole
