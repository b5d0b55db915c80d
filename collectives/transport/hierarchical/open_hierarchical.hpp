// Opens the hierarchical path: a path between neighbours, one between the members of this member's cross-host
// group, and a hierarchical_path over both once they are connected.
#pragma once

#include <memory>

#include "collectives/transport/path.hpp"
#include "collectives/transport/path_routes.hpp"

namespace farandole {

struct path_setup;

/// Whether the settings ask for two levels. On the CPU, a torus allreduce is the hierarchical one: every
/// member exchanges its own segment with the members at its position on the other hosts. All hosts must have
/// such a member.
bool wants_levels(const path_wishes& wishes, const set_facts& set, operation asked);

expected<std::unique_ptr<path>> open_hierarchical(const path_setup& setup);

} // namespace farandole
