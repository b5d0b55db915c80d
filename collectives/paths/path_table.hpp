// Which path an operation takes: a table that says what each path can move and why it cannot move the rest,
// and the rule that picks from it for one set under one job's settings. The answer depends on what all
// members know alike, so all pick the same.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "messages/error.hpp"
#include "messages/signature.hpp"

namespace farandole {

/// In the order of preference.
enum class path_kind : std::uint8_t { solo, hierarchical, local, tcp, ucx, gloo, mpi, ccl, outside };
inline constexpr std::size_t path_kinds = 9;

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

struct path_row {
  path_kind kind;
  std::string_view name;
  std::string_view needs; ///< of a set, for error texts
  bool (*serves)(const set_facts& set);
  /// By operation; empty: the path moves it. `join` moves nothing and is asked of no path.
  std::array<std::string_view, operation_count> why_not;
};

/// Whether the forced path comes from a library: it may leave operations to the others.
bool from_library(const std::string& forced);

std::span<const path_row> path_table();
const path_row& row_of(path_kind kind);

/// By operation; that of join means nothing.
using path_routes = std::array<path_kind, operation_count>;

/// `unimplemented` when the forced path cannot serve the set, with the reason.
expected<path_routes> routes_for(const set_facts& set, const path_wishes& wishes);

/// Whether any operation takes the path.
bool takes(const path_routes& routes, path_kind kind);

/// The table for people: a line for each operation, a mark for each path, then the reasons.
/// `absent` names the paths that this build or this machine does not have: they move nothing.
std::string path_report(std::span<const std::string_view> absent = {});

} // namespace farandole
