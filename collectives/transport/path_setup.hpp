// The arguments of opening a data path: the process set as this member sees it, the job's settings, and
// values that paths between processes derive from both in the same way.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/transport/hierarchy.hpp"
#include "collectives/transport/path.hpp"
#include "collectives/transport/path_routes.hpp"
#include "collectives/transport/wait/futex_wait.hpp"
#include "messages/values/port_range.hpp"
#include "messages/wire/membership.hpp"

namespace farandole {

struct host_memory;
struct mpi_job;

/// The set as seen from this member.
struct set_view {
  std::uint64_t generation = 0;
  std::uint32_t set = 0;
  std::int32_t rank = 0;       ///< within the set
  std::vector<member> members; ///< by rank within the set

  /// Ranks within the set of the members on this member's host, in ascending order.
  std::vector<std::int32_t> neighbours() const;
  bool one_host() const { return neighbours().size() == members.size(); }
  farandole::hierarchy hierarchy() const;
  set_facts facts() const;
};

struct path_options {
  std::string secret;
  std::size_t chunk_bytes = std::size_t{1} << 20;
  std::uint32_t slots = 4;
  std::size_t fast_path_bytes = 0; ///< of each member's fast path area; 0: no fast path
  std::size_t staging_bytes = 0;   ///< of each member, where there is a fast path
  std::size_t adasum_message_bytes = std::size_t{1} << 30;
  path_wishes wishes;
  port_range ports;                   ///< on which this member may listen
  bool trusted_network = false;       ///< the user allows paths without authentication
  std::string plugin_library;         ///< full path of a forced plugin path's library; ccl finds its own
  std::shared_ptr<const mpi_job> mpi; ///< null where the job has no MPI
  /// Called on the lane's thread with the member that is not connected yet and the reason; with an empty
  /// string once none is missing. May be null.
  std::function<void(const std::string& missing)> meeting_news = {};
};

/// The arguments of path_row::open(). `memory` lives until the path is destroyed.
struct path_setup {
  const set_view& set;
  const path_options& options;
  const hierarchy& levels; ///< of the set
  host_memory& memory;

  /// Ranks within the set of all members.
  std::vector<std::int32_t> all_ranks() const;
  /// The ranks within the job of these ranks within the set.
  std::vector<std::int32_t> global_ranks(std::span<const std::int32_t> ranks) const;
  /// The IP address of this member's links, which is on the interface that the settings name, if they name
  /// one. Empty if all members are on one host.
  std::string ip() const;
  futex_wait wait_policy() const;

  /// The options that all paths between these members of the set have in common.
  template <class Options>
  Options between(std::span<const std::int32_t> ranks) const {
    Options between_them;
    between_them.generation = set.generation;
    between_them.set = set.set;
    between_them.global_ranks = global_ranks(ranks);
    between_them.adasum_message_bytes = options.adasum_message_bytes;
    between_them.spins = wait_policy().spins();
    return between_them;
  }
};

using opened_path = expected<std::unique_ptr<path>>;

template <class Path>
opened_path as_path(expected<std::unique_ptr<Path>> opened) {
  if (!opened)
    return opened.error();
  return std::unique_ptr<path>(std::move(*opened));
}

} // namespace farandole
