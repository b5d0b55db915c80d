#include "collectives/transport/path_table.hpp"

#include <algorithm>

#include "collectives/transport/ccl/ccl_library.hpp"
#include "collectives/transport/gloo/gloo_path.hpp"
#include "collectives/transport/hierarchical/open_hierarchical.hpp"
#include "collectives/transport/mpi/mpi_library.hpp"
#include "collectives/transport/mpi/mpi_path.hpp"
#include "collectives/transport/path_setup.hpp"
#include "collectives/transport/plugin/plugin_path.hpp"
#include "collectives/transport/shm/open_shm_path.hpp"
#include "collectives/transport/solo.hpp"
#include "collectives/transport/tcp/tcp_path.hpp"
#include "collectives/transport/ucx/ucx_path.hpp"

namespace farandole {

namespace {

constexpr std::string_view has_a_tree = "a tree over all members needs no second level";
constexpr std::string_view equal_parts = "oneCCL supports equal segments only";
constexpr std::string_view goes_straight = "each part has one receiver, so it is sent directly";

bool any_set(const set_facts&) {
  return true;
}

bool in_every_build() {
  return true;
}

constexpr path_row rows[] = {
    {.name = "solo",
     .needs = "a set of one member",
     .serves = [](const set_facts& set) { return set.members == 1; },
     .choice = path_choice::always,
     .protection = path_protection::authenticated,
     .open = open_solo},
    {.name = "hierarchical",
     .needs = "several hosts, one of them with several members",
     .serves = [](const set_facts& set) { return set.hosts > 1 && set.members > set.hosts; },
     .why_not = {{operation::broadcast, has_a_tree},
                 {operation::barrier, has_a_tree},
                 {operation::alltoall, goes_straight},
                 {operation::reducescatter, goes_straight}},
     .choice = path_choice::switched,
     .is_switched_on = wants_levels,
     .rest_goes_by = "tcp",
     .protection = path_protection::authenticated,
     .connects_last = true,
     .available = in_every_build,
     .open = open_hierarchical},
    {.name = "local",
     .needs = "all members on one host",
     .serves = [](const set_facts& set) { return set.hosts == 1; },
     .choice = path_choice::automatic,
     .protection = path_protection::authenticated,
     .connects_last = true,
     .available = in_every_build,
     .open = open_shm_path},
    {.name = "tcp",
     .needs = "nothing",
     .serves = any_set,
     .choice = path_choice::automatic,
     .protection = path_protection::authenticated,
     .available = in_every_build,
     .open = open_tcp},
    {.name = "ucx",
     .needs = "nothing",
     .serves = any_set,
     .protection = path_protection::by_device,
     .available = [] { return static_cast<bool>(open_ucx_path({})); },
     .open = open_ucx},
    {.name = "gloo",
     .needs = "nothing",
     .serves = any_set,
     .chooses_ports = true,
     .available = [] { return static_cast<bool>(open_gloo_path({})); },
     .open = open_gloo},
    {.name = "mpi",
     .needs = "a job that mpirun started",
     .serves = any_set,
     .chooses_ports = true,
     .available = [] { return static_cast<bool>(load_mpi()); },
     .open = open_mpi},
    {.name = "ccl",
     .needs = "the global set, and a build with oneCCL",
     .serves = [](const set_facts& set) { return set.members > 1 && set.global; },
     .why_not = {{operation::reducescatter, equal_parts}},
     .not_elastic = "a process in which oneCCL has lost a member cannot use it again",
     .chooses_ports = true,
     .library = [](const path_options&) { return find_ccl_module(); },
     .also_leaves = "all of other process sets",
     .available = ccl_works,
     .open = open_plugin},
    {.name = "plugin",
     .needs = "a library in FARANDOLE_PATH_LIBRARY",
     .serves = [](const set_facts& set) { return set.members > 1; },
     .protection = path_protection::unknown,
     .library = [](const path_options& options) { return expected<std::string>(options.plugin_library); },
     .open = open_plugin},
};

} // namespace

std::span<const path_row> path_table() {
  return rows;
}

const path_row* find_path(std::string_view name) {
  const auto found =
      std::find_if(std::begin(rows), std::end(rows), [&](const path_row& row) { return row.name == name; });
  return found == std::end(rows) ? nullptr : found;
}

} // namespace farandole
