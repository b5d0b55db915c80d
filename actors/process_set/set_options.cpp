#include "actors/process_set/set_options.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "actors/process_set/set_tree.hpp"
#include "actors/submission/request_check.hpp"
#include "collectives/negotiation/fast_path_memory.hpp"
#include "collectives/transport/registry/forced_path.hpp"
#include "collectives/transport/shm/shm_fast_path.hpp"
#include "messages/settings/listening_ports.hpp"

namespace farandole {

namespace {

std::vector<member> members_of(const set_setup& setup) {
  std::vector<member> members;
  for (auto rank : setup.ranks())
    members.push_back(setup.shared->members[static_cast<std::size_t>(rank)]);
  return members;
}

// Members of the set on each host.
std::map<std::string, std::int32_t> local_sizes(const std::vector<member>& members) {
  std::map<std::string, std::int32_t> sizes;
  for (auto& member : members)
    ++sizes[member.host];
  return sizes;
}

fast_path_options fast_path_of(const set_setup& setup) {
  fast_path_options fast_path;
  auto& values = setup.settings;
  const auto forced = find_forced_path(values).name;
  auto members = members_of(setup);
  auto same_host = [&](const member& member_info) { return member_info.host == members.front().host; };
  // A set of one member has no peer on a fast path.
  fast_path.one_host = members.size() > 1 && std::all_of(members.begin(), members.end(), same_host);
  fast_path.on = values.flag(setting::fast_path) && (forced == "auto" || forced == "local");
  fast_path.limit_bytes = static_cast<std::size_t>(values.integer(setting::fast_path_limit));
  const auto memory =
      fast_path_memory::of(static_cast<std::size_t>(values.integer(setting::fast_path_area)), members.size());
  fast_path.area_bytes = memory.cells_bytes;
  fast_path.footprint = &shm_fast_path::footprint;
  fast_path.group_bytes = memory.staging_bytes / 4;
  fast_path.collective_bytes =
      memory.staging_bytes > 0 ? shm_fast_path::collective_cell_bytes(members.size()) : 0;
  return fast_path;
}

} // namespace

set_view view_of(const set_setup& setup) {
  return {setup.generation, setup.set_state->number, rank_in_set(setup.shared->rank, setup.set_state->ranks),
          members_of(setup)};
}

std::vector<std::int32_t> ranks_below(const set_setup& setup, std::int32_t top) {
  auto ranks = setup.shared->tree->subtree(top);
  if (!setup.set_state->ranks.empty())
    std::erase_if(ranks, [&](auto rank) { return rank_in_set(rank, setup.set_state->ranks) < 0; });
  return ranks;
}

std::vector<relay_branch> branches_of(const set_setup& setup) {
  std::vector<relay_branch> branches;
  for (auto child : setup.shared->tree->children(setup.shared->rank)) {
    relay_branch entry{child, ranks_below(setup, child)};
    if (entry.ranks.size() > 1 || (entry.ranks.size() == 1 && entry.ranks.front() != child))
      branches.push_back(std::move(entry));
  }
  return branches;
}

inline_rules inline_of(const set_setup& setup) {
  const auto members = members_of(setup);
  if (setup.shared->tree->relays() || local_sizes(members).size() < 2 ||
      find_forced_path(setup.settings).name != "auto")
    return {};
  return inline_rules::of(static_cast<std::size_t>(setup.settings.integer(setting::inline_limit)),
                          members.size());
}

negotiation_options negotiation_of(const set_setup& setup) {
  negotiation_options options;
  options.members = setup.ranks();
  options.cache_capacity = static_cast<std::size_t>(setup.settings.integer(setting::cache_capacity));
  options.fast_path = fast_path_of(setup);
  options.keeps_sets = setup.set_state->number == 0;
  options.branches = branches_of(setup);
  options.buckets = static_cast<std::size_t>(setup.settings.integer(setting::relay_buckets));
  options.inline_bytes = inline_of(setup).limit_bytes;
  return options;
}

fusion_options fusion_of(const set_setup& setup) {
  fusion_options options;
  auto members = members_of(setup);
  auto sizes = local_sizes(members);
  options.threshold_bytes = static_cast<std::size_t>(setup.settings.integer(setting::fusion_threshold));
  options.local_size = sizes[members.front().host];
  for (auto& [host, size] : sizes)
    options.homogeneous = options.homogeneous && size == options.local_size;
  options.groups_alone = setup.settings.flag(setting::disable_group_fusion);
  options.cycle_time = setup.settings.duration(setting::cycle_time);
  return options;
}

path_options paths_of(const set_setup& setup) {
  path_options options;
  auto fast_path = fast_path_of(setup);
  options.secret = setup.secret;
  options.chunk_bytes = static_cast<std::size_t>(setup.settings.integer(setting::segment_chunk));
  options.slots = static_cast<std::uint32_t>(setup.settings.integer(setting::segment_slots));
  if (fast_path.on && fast_path.one_host) {
    const auto area = static_cast<std::size_t>(setup.settings.integer(setting::fast_path_area));
    options.fast_path_bytes = fast_path.area_bytes;
    options.staging_bytes = fast_path_memory::of(area, setup.ranks().size()).staging_bytes;
  }
  options.adasum_message_bytes = static_cast<std::size_t>(setup.settings.integer(setting::adasum_chunk));
  options.wishes.forced = find_forced_path(setup.settings).name;
  options.ports = ports_of(setup.settings);
  options.trusted_network = setup.settings.flag(setting::trusted_network);
  options.plugin_library = setup.settings.text(setting::path_library);
  options.mpi = setup.shared->mpi;
  options.wishes.hierarchical_allreduce = setup.settings.flag(setting::hierarchical_allreduce);
  options.wishes.torus_allreduce = setup.settings.flag(setting::torus_allreduce);
  options.wishes.hierarchical_allgather = setup.settings.flag(setting::hierarchical_allgather);
  return options;
}

bool settles_at_launch(const set_setup& setup) {
  return setup.settings.flag(setting::async_completion) &&
         (!setup.shared->elastic || setup.settings.is_set(setting::async_completion));
}

} // namespace farandole
