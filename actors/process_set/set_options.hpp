// The actors of a process set take their options as plain values and know no settings. These functions derive the
// options of each actor from the job's settings, the members of the set and the tree of relays.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/fusion/fusion.hpp"
#include "collectives/negotiation/inline_reduction.hpp"
#include "collectives/negotiation/negotiation.hpp"
#include "collectives/relay/member_mask.hpp"
#include "collectives/transport/path_setup.hpp"

namespace farandole {

struct set_setup;

/// The set as this process sees it.
set_view view_of(const set_setup& setup);

/// The members of the set in the subtree of relays below, and including, `top`.
std::vector<std::int32_t> ranks_below(const set_setup& setup, std::int32_t top);

/// The children of this process, in the tree of relays, that forward requests for other ranks than themselves.
std::vector<relay_branch> branches_of(const set_setup& setup);

/// Tensors travel inline only between hosts, where there is no fast path, and only if all members talk to the leader
/// directly. A path that the user selected by name carries all tensors.
inline_rules inline_of(const set_setup& setup);

negotiation_options negotiation_of(const set_setup& setup);
fusion_options fusion_of(const set_setup& setup);
path_options paths_of(const set_setup& setup);

/// Whether operations on the memory of a device are settled when it has been given their work (lane_thread::wiring). In
/// elastic jobs only if the user says so.
bool settles_at_launch(const set_setup& setup);

} // namespace farandole
