// The paths of one process set on one member, for one generation. They are opened, their addresses are sent
// to the other members, they are connected, and then each bundle is run on one of them. path_routes.hpp
// selects the path for each operation.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/transport/path.hpp"
#include "collectives/transport/path_setup.hpp"
#include "collectives/transport/shm/heartbeat_words.hpp"
#include "collectives/transport/shm/open_shm_path.hpp"
#include "collectives/transport/shm/shm_fast_path.hpp"

namespace farandole {

/// Used on its lane's thread, except for the functions that state otherwise.
class data_paths {
public:
  /// Opens the paths that this set's operations use. `unimplemented`, with the reason, if the forced path
  /// cannot serve this set.
  static expected<std::unique_ptr<data_paths>> open(const set_view& set, const path_options& settings);

  /// A message for users about the paths of this set's operations. Usually empty.
  std::string remark() const;

  /// For the log: the operations that each path serves, as in "hierarchical (allreduce), tcp (allgather,
  /// broadcast)". A path that only takes bundles which another one refuses is omitted.
  std::string served_operations() const;

  /// The path addresses of this member, to be sent to the other members.
  path_addresses introduce() const;

  /// Connects all paths. `all`: the path addresses of all members, by rank within the set. Blocks until this
  /// member is connected.
  error connect(std::span<const path_addresses> all, const deadline_and_abort& deadline);

  /// A message for users about how members were connected, or why they could not be. Usually empty.
  std::string remark_on_connecting() const { return remark_on_connecting_; }

  /// The path that moves this bundle. Call it only after connect().
  path& choose(const work& bundle);

  /// Null if there is no fast path: the set spans several hosts, or it is switched off. Thread-safe once
  /// connected.
  std::shared_ptr<farandole::shm_fast_path> fast_path() const { return memory_.fast_path; }

  /// The heartbeats of the members on this host, by rank within the set; null if they share no memory. To be
  /// used by one thread, once connected.
  std::shared_ptr<heartbeat_words> heartbeats() const;

private:
  struct open_path {
    const path_row* row;
    std::unique_ptr<farandole::path> path;
  };

  data_paths(const set_view& set, const path_options& options, const path_routes& routes);
  error open_all();
  path& path_of(const path_row& row) const;
  error connect(const open_path& opened, std::span<const path_addresses> all,
                const deadline_and_abort& deadline);

  set_view set_;
  path_options options_;
  path_routes routes_;
  hierarchy levels_;
  host_memory memory_;           ///< outlives the paths, which refer to it
  std::vector<open_path> paths_; ///< in the order of the table
  std::string remark_on_connecting_;
};

} // namespace farandole
