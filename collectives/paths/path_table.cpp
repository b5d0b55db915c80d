#include "collectives/paths/path_table.hpp"

#include <algorithm>
#include <cassert>

#include "collectives/operation.hpp"

namespace farandole {

namespace {

constexpr std::string_view moves_nothing = "join moves nothing";
constexpr std::string_view has_a_tree = "it goes down a tree of members as it is";
constexpr std::string_view equal_parts = "oneCCL gives all members equally much of it";
constexpr std::string_view goes_straight = "what a member is sent is for it alone, and goes to it straight";

// In the order of operations: allreduce, allgather, broadcast, barrier, join, alltoall, reducescatter.
constexpr path_row rows[path_kinds] = {
    {path_kind::solo,
     "solo",
     "a set of one member",
     [](const set_facts& set) { return set.members == 1; },
     {"", "", "", "", moves_nothing, "", ""}},
    {path_kind::hierarchical,
     "hierarchical",
     "several hosts, one of them with several members",
     [](const set_facts& set) { return set.hosts > 1 && set.members > set.hosts; },
     {"", "", has_a_tree, has_a_tree, moves_nothing, goes_straight, goes_straight}},
    {path_kind::local,
     "local",
     "all members on one host",
     [](const set_facts& set) { return set.hosts == 1; },
     {"", "", "", "", moves_nothing, "", ""}},
    {path_kind::tcp,
     "tcp",
     "nothing",
     [](const set_facts&) { return true; },
     {"", "", "", "", moves_nothing, "", ""}},
    {path_kind::ucx,
     "ucx",
     "nothing",
     [](const set_facts&) { return true; },
     {"", "", "", "", moves_nothing, "", ""}},
    {path_kind::gloo,
     "gloo",
     "nothing",
     [](const set_facts&) { return true; },
     {"", "", "", "", moves_nothing, "", ""}},
    {path_kind::mpi,
     "mpi",
     "a job that mpirun started",
     [](const set_facts&) { return true; },
     {"", "", "", "", moves_nothing, "", ""}},
    {path_kind::ccl,
     "ccl",
     "the global set, and a build with oneCCL",
     [](const set_facts& set) { return set.members > 1 && set.global; },
     {"", "", "", "", moves_nothing, "", equal_parts}},
    {path_kind::outside,
     "outside",
     "a library in FARANDOLE_PATH_LIBRARY",
     [](const set_facts& set) { return set.members > 1; },
     {"", "", "", "", moves_nothing, "", ""}},
};

bool moves(const path_row& row, operation what) {
  return row.why_not[static_cast<std::size_t>(what)].empty();
}

/// Whether in levels is asked for. A torus is nothing else on the CPU: every member exchanges its own segment
/// with those of its place on the other hosts, which all have to have one.
bool in_levels(const set_facts& set, operation what, const path_wishes& wishes) {
  if (what == operation::allgather)
    return wishes.hierarchical_allgather;
  return what == operation::allreduce &&
         (wishes.hierarchical_allreduce || (wishes.torus_allreduce && set.homogeneous));
}

/// Whether the settings let the path have the operation, where it could.
bool wanted(const path_row& row, const set_facts& set, operation what, const path_wishes& wishes) {
  // What its library does not move goes as if nothing was forced.
  const bool automatic = wishes.forced == "auto" ||
                         (from_library(wishes.forced) && !wishes.outside[static_cast<std::size_t>(what)]);
  switch (row.kind) {
  case path_kind::solo:
    return true;
  case path_kind::hierarchical:
    return automatic && in_levels(set, what, wishes);
  case path_kind::mpi:
    return wishes.forced == row.name;
  case path_kind::ccl:
  case path_kind::outside:
    return wishes.forced == row.name && !automatic;
  case path_kind::local:
  case path_kind::tcp:
  case path_kind::ucx:
  case path_kind::gloo:
    break;
  }
  return automatic || wishes.forced == row.name;
}

error refusal(const std::string& forced) {
  for (const auto& row : rows)
    if (forced == row.name)
      return {error_kind::unimplemented, "FARANDOLE_CPU_PATH=" + forced + " needs " + std::string(row.needs) +
                                             "; unset it to let Farandole choose"};
  return {
      error_kind::unimplemented,
      "FARANDOLE_CPU_PATH=" + forced +
          " (or HOROVOD_CPU_OPERATIONS) asks for what is not in this build; use auto, local, tcp, ucx, gloo, "
          "mpi, ccl or outside"};
}

} // namespace

bool from_library(const std::string& forced) {
  return forced == row_of(path_kind::ccl).name || forced == row_of(path_kind::outside).name;
}

std::span<const path_row> path_table() {
  return rows;
}

const path_row& row_of(path_kind kind) {
  const auto& row = rows[static_cast<std::size_t>(kind)];
  assert(row.kind == kind);
  return row;
}

expected<path_routes> routes_for(const set_facts& set, const path_wishes& wishes) {
  path_routes routes{};
  for (const auto& asked : operation_table) {
    if (asked.id == operation::join)
      continue;
    const auto found = std::find_if(std::begin(rows), std::end(rows), [&](const path_row& row) {
      return row.serves(set) && moves(row, asked.id) && wanted(row, set, asked.id, wishes);
    });
    if (found == std::end(rows))
      return refusal(wishes.forced);
    routes[static_cast<std::size_t>(asked.id)] = found->kind;
  }
  routes[static_cast<std::size_t>(operation::join)] = routes[static_cast<std::size_t>(operation::barrier)];
  return routes;
}

bool takes(const path_routes& routes, path_kind kind) {
  return std::find(routes.begin(), routes.end(), kind) != routes.end();
}

std::string path_report(std::span<const std::string_view> absent) {
  constexpr std::size_t first_column = 15;
  const auto padded = [](std::string_view text, std::size_t width) {
    std::string cell(text);
    cell.resize(std::max(width, cell.size()), ' ');
    return cell;
  };
  const auto is_absent = [&](const path_row& row) {
    return std::find(absent.begin(), absent.end(), row.name) != absent.end();
  };
  std::string text = "    " + padded("", first_column), reasons;
  for (const auto& row : rows)
    text += "  " + std::string(row.name);
  text += "\n";
  for (const auto& asked : operation_table) {
    if (asked.id == operation::join)
      continue;
    std::string line = "    " + padded(asked.name, first_column);
    for (const auto& row : rows) {
      const bool possible = moves(row, asked.id) && !is_absent(row);
      line += "  " + padded(possible ? "[X]" : "[ ]", row.name.size());
      if (!moves(row, asked.id) && !is_absent(row))
        reasons += "    " + std::string(asked.name) + " not by " + std::string(row.name) + ": " +
                   std::string(row.why_not[static_cast<std::size_t>(asked.id)]) + "\n";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  for (const auto& row : rows)
    if (is_absent(row))
      reasons += "    nothing by " + std::string(row.name) + ": it is not available here\n";
  return text + reasons;
}

} // namespace farandole
