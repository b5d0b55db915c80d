// Moves bundles between members with Gloo's messages over TCP, for jobs that ask for it by name. Gloo only
// carries; what goes to whom and how it is summed is that of every path between processes
// (message_exchange.hpp), and so are the bits of the result.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/transport/p2p/p2p_path.hpp"

namespace farandole {

struct path_setup;

struct gloo_options : p2p_options {
  std::uint64_t generation = 0;
  std::uint32_t set = 0;
  std::int32_t rank = 0; ///< within the set
  /// Of all members, by rank within the set.
  std::vector<std::int32_t> global_ranks{0};
  /// Of this member, where the others can reach it.
  std::string ip = "127.0.0.1";
};

/// Listens, and reaches nobody yet. `unimplemented` where Gloo is missing.
expected<std::unique_ptr<p2p_path>> open_gloo_path(const gloo_options& options);

expected<std::unique_ptr<path>> open_gloo(const path_setup& setup);

} // namespace farandole
