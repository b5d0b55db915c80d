// Selects the path for each operation of one process set under the job's settings: one row of the path table
// for each operation. The selection depends only on values that are equal on all members, so all members
// select the same paths.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "messages/values/error.hpp"
#include "messages/values/signature.hpp"

namespace farandole {

struct path_row;

/// The properties of a set that the selection depends on.
struct set_facts {
  std::size_t members = 1;
  std::size_t hosts = 1;
  bool homogeneous = true; ///< every host has the same number of members
  bool global = true;      ///< whether it is the global set
};

/// By operation.
using moved_operations = std::array<bool, operation_count>;

struct path_wishes {
  std::string forced = "auto"; ///< cpu path setting
  bool hierarchical_allreduce = false;
  bool hierarchical_allgather = false;
  bool torus_allreduce = false;
  moved_operations
      library_moves{}; ///< if a path from a library is forced (ccl, plugin): what the library moves
};

/// By operation; the entry of join has no meaning.
using path_routes = std::array<const path_row*, operation_count>;

/// `unimplemented` when the forced path cannot serve the set, with the reason.
expected<path_routes> routes_for(const set_facts& set, const path_wishes& wishes);

/// Whether any operation uses the path, directly or as the path that takes the bundles that its own path
/// refuses.
bool needs(const path_routes& routes, const path_row& row);

/// A human-readable table: a line for each operation, a mark for each path, then the reasons.
/// `absent` names the paths that this build or this machine does not have; they are shown as moving nothing.
std::string path_report(std::span<const std::string_view> absent = {});

} // namespace farandole
