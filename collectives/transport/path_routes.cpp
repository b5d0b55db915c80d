#include "collectives/transport/path_routes.hpp"

#include <algorithm>

#include "collectives/operation.hpp"
#include "collectives/transport/path_table.hpp"

namespace farandole {

namespace {

bool is_from_library(std::string_view forced) {
  const auto* row = find_path(forced);
  return row != nullptr && row->library != nullptr;
}

/// Whether the settings select the path for the operation, which the path can move.
bool is_wanted(const path_row& row, const set_facts& set, operation asked, const path_wishes& wishes) {
  // Operations that the library of a forced path does not move are routed as if no path was forced.
  const bool unforced = wishes.forced == "auto" || (is_from_library(wishes.forced) &&
                                                    !wishes.library_moves[static_cast<std::size_t>(asked)]);
  const bool forced = !unforced && wishes.forced == row.name;
  switch (row.choice) {
  case path_choice::always:
    return true;
  case path_choice::switched:
    return unforced && row.is_switched_on(wishes, set, asked);
  case path_choice::automatic:
    return unforced || forced;
  case path_choice::by_name:
    break;
  }
  return forced;
}

/// The valid values of FARANDOLE_CPU_PATH: "auto, local, tcp or ucx".
std::string forcible_paths() {
  std::string text = "auto", last;
  for (const auto& row : path_table())
    if (row.can_be_forced()) {
      text += last.empty() ? "" : ", " + last;
      last = row.name;
    }
  return text + " or " + last;
}

error refusal(const std::string& forced) {
  if (const auto* row = find_path(forced))
    return {error_kind::unimplemented, "FARANDOLE_CPU_PATH=" + forced + " needs " + std::string(row->needs) +
                                           "; unset it to let Farandole choose"};
  return {error_kind::unimplemented,
          "FARANDOLE_CPU_PATH=" + forced +
              " (or HOROVOD_CPU_OPERATIONS) names a path that this build does not have; use " +
              forcible_paths()};
}

} // namespace

expected<path_routes> routes_for(const set_facts& set, const path_wishes& wishes) {
  const auto rows = path_table();
  path_routes routes{};
  for (const auto& asked : operation_table) {
    if (asked.id == operation::join)
      continue;
    const auto found = std::find_if(rows.begin(), rows.end(), [&](const path_row& row) {
      return row.serves(set) && row.moves(asked.id) && is_wanted(row, set, asked.id, wishes);
    });
    if (found == rows.end())
      return refusal(wishes.forced);
    routes[static_cast<std::size_t>(asked.id)] = &*found;
  }
  routes[static_cast<std::size_t>(operation::join)] = routes[static_cast<std::size_t>(operation::barrier)];
  return routes;
}

bool needs(const path_routes& routes, const path_row& row) {
  return std::any_of(routes.begin(), routes.end(),
                     [&](const path_row* taken) { return taken == &row || taken->rest_goes_by == row.name; });
}

std::string path_report(std::span<const std::string_view> absent) {
  const auto rows = path_table();
  constexpr std::size_t name_width = 15;
  const auto padded = [](std::string_view text, std::size_t width) {
    std::string cell(text);
    cell.resize(std::max(width, cell.size()), ' ');
    return cell;
  };
  const auto is_absent = [&](const path_row& row) {
    return std::find(absent.begin(), absent.end(), row.name) != absent.end();
  };
  std::string text = "    " + padded("", name_width), reasons;
  for (const auto& row : rows)
    text += "  " + std::string(row.name);
  text += "\n";
  for (const auto& asked : operation_table) {
    if (asked.id == operation::join)
      continue;
    std::string line = "    " + padded(asked.name, name_width);
    for (const auto& row : rows) {
      const bool possible = row.moves(asked.id) && !is_absent(row);
      line += "  " + padded(possible ? "[X]" : "[ ]", row.name.size());
      if (!row.moves(asked.id) && !is_absent(row))
        reasons += "    " + std::string(asked.name) + " not by " + std::string(row.name) + ": " +
                   std::string(row.why_not[asked.id]) + "\n";
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
