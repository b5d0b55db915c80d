// Moves bundles between members with Gloo's messages over TCP, for jobs that ask for it by name. Gloo only
// carries the messages. message_exchange.hpp decides which bytes go to which member and how they are reduced,
// as for every path between processes, so the result has the same bits.
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
  /// Ranks in the job of all members, by rank within the set.
  std::vector<std::int32_t> global_ranks{0};
  /// The address at which the other members can reach this member.
  std::string ip = "127.0.0.1";
};

/// Opens a path that listens and is not connected yet. `unimplemented` if Gloo is missing.
expected<std::unique_ptr<p2p_path>> open_gloo_path(const gloo_options& options);

expected<std::unique_ptr<path>> open_gloo(const path_setup& setup);

} // namespace farandole
