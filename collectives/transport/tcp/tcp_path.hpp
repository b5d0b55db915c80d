// The path between hosts that needs nothing but TCP and the job's secret: every connection is authenticated
// and everything on it is encrypted (docs/decisions/0025-tcp-path.md). exchange_path.hpp says how bundles
// move.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/transport/p2p/p2p_path.hpp"

namespace farandole {

struct path_setup;

struct tcp_options : p2p_options {
  std::string secret; ///< of the job
  std::uint64_t generation = 0;
  std::uint32_t set = 0;
  std::uint32_t column = 0; ///< 0: between all members of the set; else of one of its columns, from 1
  /// Of this member's interface: nobody reaches it by another.
  std::string ip = "127.0.0.1";
  /// Whether members of higher rank call this one: the highest has no listener.
  bool listens = true;
  /// Told, while members meet, whom this one has not met yet and why, each time that it changes; in the end
  /// that nobody is missing, by an empty text. From the lane's thread. May be null.
  std::function<void(const std::string& missing)> meeting_news = {};
  /// Global ranks by rank within the path, for error texts; empty: the same numbers.
  std::vector<std::int32_t> global_ranks;
  /// Whether a wait may keep its core busy for some microseconds before it sleeps (waiting.hpp decides).
  bool spins = false;
};

/// A path that can be reached, and reaches nobody yet. Its destructor says goodbye, for at most half a
/// second.
expected<std::unique_ptr<p2p_path>> open_tcp_path(const tcp_options& options);

/// Between the members of these ranks in the set: all (column 0), or those of a column.
expected<std::unique_ptr<p2p_path>>
open_tcp_between(const path_setup& setup, std::span<const std::int32_t> ranks, std::uint32_t column);

expected<std::unique_ptr<path>> open_tcp(const path_setup& setup);

} // namespace farandole
