// Replaces the path connector of a simulated member in one process set. It exchanges addresses like the real
// one, but its bundles only take virtual time.
#pragma once

#include "actors/interfaces/lane.hpp"
#include "actors/process_set/set_tree.hpp"
#include "tests/world/set_player.hpp"

namespace farandole::testing {

path_connector_actor set_lane(caf::event_based_actor* parent, const set_setup& setup,
                              set_setup::bundle_ended ended, set_stage& stage);

} // namespace farandole::testing
