// Which path takes an operation: the rule that picks a row of the table for each operation of one set, under
// one job's settings. The answer depends on what all members know alike, so all pick the same.
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

/// What a set looks like to a path.
struct set_facts {
  std::size_t members = 1;
  std::size_t hosts = 1;
  bool homogeneous = true; ///< as many members on every host
  bool global = true;      ///< the global set
};

/// By operation.
using moved_operations = std::array<bool, operation_count>;

struct path_wishes {
  std::string forced = "auto"; ///< cpu path setting
  bool hierarchical_allreduce = false;
  bool hierarchical_allgather = false;
  bool torus_allreduce = false;
  moved_operations outside{}; ///< where a path from a library is forced (ccl, outside): what that moves
};

/// By operation; that of join means nothing.
using path_routes = std::array<const path_row*, operation_count>;

/// `unimplemented` when the forced path cannot serve the set, with the reason.
expected<path_routes> routes_for(const set_facts& set, const path_wishes& wishes);

/// Whether any operation takes the path, or takes another that leaves some bundles to it.
bool needs(const path_routes& routes, const path_row& row);

/// The table for people: a line for each operation, a mark for each path, then the reasons.
/// `absent` names the paths that this build or this machine does not have: they move nothing.
std::string path_report(std::span<const std::string_view> absent = {});

} // namespace farandole
