// The paths of one process set on one member, for one generation: opened, made known to the others,
// connected, and then chosen from. Which path takes a bundle is said by path_routes.hpp, not by a chain of
// ifs at the caller.
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

/// Used on its lane's thread, but for board().
class data_paths {
public:
  /// Opens what this set's operations take. `unimplemented` when the forced path cannot serve this set, with
  /// the reason.
  static expected<std::unique_ptr<data_paths>> open(const set_view& set, const path_options& settings);

  /// What people should know of how this set's operations go; mostly empty.
  std::string remark() const;

  /// To be told to the other members.
  path_addresses introduce() const;

  /// Everybody's path addresses, by rank within the set. Blocks until this member is connected.
  error connect(std::span<const path_addresses> all, const deadline_and_abort& deadline);

  /// What people should know of how members were connected, or could not be; mostly empty.
  std::string remark_on_connecting() const { return remark_on_connecting_; }

  /// For this bundle; never null once connected.
  path& choose(const work& bundle);

  /// Null where there is none: several hosts, or switched off. Thread-safe once connected.
  std::shared_ptr<farandole::shm_fast_path> fast_path() const { return memory_.fast_path; }

  /// Of the members on this host, by rank within the set; null where they share no memory. For one thread,
  /// once connected.
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
