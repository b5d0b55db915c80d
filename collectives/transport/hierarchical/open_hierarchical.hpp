// Opens the path in two levels: a path between neighbours, one between the members of this member's cross-host group,
// and a hierarchical_path over both once they are connected.
#pragma once

#include <memory>

#include "collectives/transport/path.hpp"
#include "collectives/transport/path_routes.hpp"

namespace farandole {

struct path_setup;

/// Whether the settings ask for levels. A torus is nothing else on the CPU: every member exchanges its own
/// segment with those of its place on the other hosts, which all have to have one.
bool wants_levels(const path_wishes& wishes, const set_facts& set, operation asked);

expected<std::unique_ptr<path>> open_hierarchical(const path_setup& setup);

} // namespace farandole
