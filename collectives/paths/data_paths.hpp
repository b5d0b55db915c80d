// The paths of one process set on one member, for one generation: opened, made known to the others,
// connected, and then chosen from. Which path takes a bundle is said by path_table.hpp, not by a chain of ifs
// at the caller.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/paths/hierarchical/hierarchy.hpp"
#include "collectives/paths/local/board.hpp"
#include "collectives/paths/local/heartbeat_words.hpp"
#include "collectives/paths/local/window.hpp"
#include "collectives/paths/path.hpp"
#include "collectives/paths/path_table.hpp"
#include "messages/membership.hpp"

namespace farandole {

class window_offer;
class exchange_path;
class hierarchical_path;
struct mpi_job;

/// What the set looks like from this member.
struct set_view {
  std::uint64_t generation = 0;
  std::uint32_t set = 0;
  std::int32_t rank = 0;       ///< within the set
  std::vector<member> members; ///< by rank within the set

  /// Ranks within the set of those on this member's host, in order.
  std::vector<std::int32_t> neighbours() const;
  bool one_host() const { return neighbours().size() == members.size(); }
  farandole::hierarchy hierarchy() const;
};

struct path_options {
  std::string secret;
  std::size_t chunk_bytes = std::size_t{1} << 20;
  std::uint32_t slots = 4;
  std::size_t single_copy_bytes = 0; ///< from which an alltoall goes past the window; 0: never
  std::size_t board_bytes = 0;       ///< of each member's board area; 0: no board
  std::size_t adasum_message_bytes = std::size_t{1} << 30;
  path_wishes wishes;
  bool trusted_network = false;       ///< the user allows paths that do not authenticate
  std::string outside_library;        ///< full path; for who forces the outside path. ccl finds its own
  std::shared_ptr<const mpi_job> mpi; ///< null where the job has no MPI
  /// Told, from the lane's thread, which member is not connected yet and why; empty: none. May be null.
  std::function<void(const std::string& missing)> meeting_news = {};
};

/// Used on its lane's thread, but for board().
class data_paths {
public:
  /// Opens what this set's operations take. `unimplemented` when the forced path cannot serve this set, with
  /// the reason.
  static expected<std::unique_ptr<data_paths>> open(const set_view& set, const path_options& how);
  ~data_paths();

  /// What people should know of how this set's operations go; mostly empty.
  std::string remark() const;

  /// To be told to the other members.
  introduction introduce() const;

  /// Everybody's introductions, by rank within the set. Blocks until this member is connected.
  error connect(std::span<const introduction> all, const limits& until);

  /// What people should know of how members were connected, or could not be; mostly empty.
  std::string remark_on_connecting() const { return remark_on_connecting_; }

  /// For this bundle; never null once connected.
  path& choose(const work& bundle);

  /// Null where there is none: several hosts, or switched off. Thread-safe once connected.
  std::shared_ptr<farandole::board> board() const { return board_; }

  /// Of the members on this host, by rank within the set; null where they share no memory. For one thread,
  /// once connected.
  std::shared_ptr<heartbeat_words> heartbeats() const;

private:
  data_paths(const set_view& set, const path_options& how, const path_routes& routes);
  bool takes(path_kind kind) const { return farandole::takes(routes_, kind); }
  bool shares_memory() const;
  using opened = expected<std::unique_ptr<path>>;
  /// How the paths that connect all members of the set are opened, in the order of the table of paths.
  struct opener {
    path_kind kind;
    opened (data_paths::*open)() const;
  };
  static const opener openers[];
  error open_all();
  opened open_tcp() const;
  opened open_ucx() const;
  opened open_gloo() const;
  opened open_mpi() const;
  opened open_outside() const;
  template <class Options>
  Options between(std::span<const std::int32_t> ranks) const;
  /// Between the members of these ranks in the set: all (column 0), or those of equal place on their hosts.
  expected<std::unique_ptr<exchange_path>> open_tcp_between(std::span<const std::int32_t> ranks,
                                                            std::uint32_t column) const;
  std::unique_ptr<path>& opened_as(path_kind kind) { return paths_[static_cast<std::size_t>(kind)]; }
  const std::unique_ptr<path>& opened_as(path_kind kind) const {
    return paths_[static_cast<std::size_t>(kind)];
  }
  /// `what` is a path of that kind, which connects the members of `ranks`; this member is at `place` there.
  error connect_one(path_kind kind, path& what, std::span<const introduction> all,
                    std::span<const std::int32_t> ranks, std::int32_t place, const limits& until);
  error connect_levels(std::span<const introduction> all, const limits& until);
  error share_window(std::span<const introduction> all, const limits& until);
  window_layout layout() const;

  set_view set_;
  path_options how_;
  path_routes routes_;
  hierarchy levels_;
  std::unique_ptr<window_offer> offer_;
  std::shared_ptr<window> window_;
  std::string remark_on_connecting_;
  std::shared_ptr<farandole::board> board_;
  std::array<std::unique_ptr<path>, path_kinds> paths_; ///< null: not opened
  std::unique_ptr<path> inner_;                         ///< on this host alone; handed on once connected
  std::unique_ptr<exchange_path> column_; ///< between members of equal place on their hosts; likewise
  bool levels_take_adasum_ = false;
};

} // namespace farandole
