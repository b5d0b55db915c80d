#include "collectives/transport/registry/data_paths.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "collectives/operation.hpp"
#include "collectives/transport/path_table.hpp"
#include "collectives/transport/plugin/plugin_library.hpp"

namespace farandole {

namespace {

// Loads the library of a forced path and records the operations that it moves for this set.
error look_into_library(const path_row& forced, const set_facts& set, path_options& options) {
  auto file = forced.library(options);
  if (!file)
    return file.error();
  options.plugin_library = std::move(*file);
  auto library = load_plugin_path(options.plugin_library);
  if (!library)
    return library.error();
  if (forced.serves(set))
    options.wishes.library_moves = operations_of(**library);
  return {};
}

} // namespace

data_paths::data_paths(const set_view& set, const path_options& options, const path_routes& routes)
    : set_(set), options_(options), routes_(routes), levels_(set.hierarchy()) {}

expected<std::unique_ptr<data_paths>> data_paths::open(const set_view& set, const path_options& settings) {
  path_options options = settings;
  const auto facts = set.facts();
  if (const auto* forced = find_path(settings.wishes.forced); forced != nullptr && forced->library != nullptr)
    if (auto problem = look_into_library(*forced, facts, options))
      return problem;
  auto routes = routes_for(facts, options.wishes);
  if (!routes)
    return routes.error();
  std::unique_ptr<data_paths> opened{new data_paths(set, options, *routes)};
  if (auto problem = opened->open_all())
    return problem;
  return opened;
}

error data_paths::open_all() {
  const path_setup setup{set_, options_, levels_, memory_};
  for (const auto& row : path_table())
    if (needs(routes_, row)) {
      auto path = row.open(setup);
      if (!path)
        return path.error();
      paths_.push_back({&row, std::move(*path)});
    }
  return {};
}

std::string data_paths::remark() const {
  for (const auto& [row, path] : paths_)
    if (row->library != nullptr) {
      const auto text = what_falls_back(**load_plugin_path(options_.plugin_library), options_.plugin_library);
      return row->also_leaves.empty() ? text : text + ", and " + std::string(row->also_leaves);
    }
  return {};
}

std::string data_paths::served_operations() const {
  std::string text;
  for (const auto& opened : paths_) {
    std::string served;
    for (const auto& asked : operation_table)
      if (asked.id != operation::join && routes_[static_cast<std::size_t>(asked.id)] == opened.row)
        served += (served.empty() ? "" : ", ") + std::string(asked.name);
    if (!served.empty())
      text += (text.empty() ? "" : ", ") + std::string(opened.row->name) + " (" + served + ")";
  }
  return text;
}

path_addresses data_paths::introduce() const {
  path_addresses own;
  own.rank = set_.members[static_cast<std::size_t>(set_.rank)].rank;
  for (const auto& [row, path] : paths_)
    if (auto address = path->address(); !address.empty())
      own.paths.push_back({std::string(row->name), std::move(address)});
  return own;
}

// Every member connects its paths in the same order.
error data_paths::connect(std::span<const path_addresses> all, const deadline_and_abort& deadline) {
  assert(all.size() == set_.members.size());
  for (const bool last : {false, true})
    for (const auto& opened : paths_)
      if (opened.row->connects_last == last)
        if (auto problem = connect(opened, all, deadline))
          return problem;
  return {};
}

error data_paths::connect(const open_path& opened, std::span<const path_addresses> all,
                          const deadline_and_abort& deadline) {
  std::vector<std::string> addresses;
  for (const auto& own_addresses : all)
    addresses.push_back(own_addresses.address_of(opened.row->name));
  auto problem = opened.path->connect(addresses, set_.rank, deadline);
  if (remark_on_connecting_.empty())
    remark_on_connecting_ = opened.path->remark();
  return problem;
}

std::shared_ptr<heartbeat_words> data_paths::heartbeats() const {
  if (!memory_.segment)
    return nullptr;
  return std::make_shared<heartbeat_words>(memory_.segment, static_cast<std::uint32_t>(levels_.position),
                                           levels_.neighbours());
}

path& data_paths::path_of(const path_row& row) const {
  const auto found =
      std::find_if(paths_.begin(), paths_.end(), [&](const open_path& opened) { return opened.row == &row; });
  assert(found != paths_.end());
  return *found->path;
}

path& data_paths::choose(const work& bundle) {
  const auto& row = *routes_[static_cast<std::size_t>(bundle.operation)];
  path& taken = path_of(row);
  return taken.moves(bundle) ? taken : path_of(*find_path(row.rest_goes_by));
}

} // namespace farandole
