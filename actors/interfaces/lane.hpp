// The path connector of a process set, which feeds the lane. The lane runs bundles on the data paths
// (actors/process_set/path_connector.hpp).
#pragma once

#include <caf/all.hpp>

#include <memory>

#include "actors/event_loop/atoms.hpp"
#include "actors/event_loop/envelope_actor.hpp"
#include "messages/values/error.hpp"
#include "messages/wire/membership.hpp"

namespace farandole {

/// The generation has ended for this member. Operations that have not started fail with `reason`.
struct generation_over {
  error reason;
};

struct lane_task;
/// A bundle for the lane. It is a shared pointer only because CAF must be able to copy messages. The path connector
/// moves the task out of it and becomes its owner.
using lane_task_ptr = std::shared_ptr<std::unique_ptr<lane_task>>;

using path_connector_actor = caf::typed_actor<
    /// The path addresses of all members of the set.
    caf::reacts_to<envelope>,
    /// Run this bundle.
    caf::reacts_to<lane_task_ptr>,
    /// Abort the lane.
    caf::reacts_to<generation_over>,
    /// Call the drained callback once the lane has run all bundles that it was given.
    caf::reacts_to<drained_atom>,
    /// INTERNAL, from the lane: the addresses of this member's paths.
    caf::reacts_to<path_addresses>,
    /// INTERNAL, from the lane: all paths are connected.
    caf::reacts_to<ready_atom>>;

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::generation_over)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::lane_task_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::path_addresses)
