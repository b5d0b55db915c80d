// A process set's lane and the path connector before it: they run bundles on the data paths (actors/process_set/path_connector.hpp).
#pragma once

#include <caf/all.hpp>

#include <memory>

#include "actors/event_loop/atoms.hpp"
#include "actors/event_loop/envelope_actor.hpp"
#include "messages/values/error.hpp"
#include "messages/wire/membership.hpp"

namespace farandole {

/// The generation is over for this member, and why. What was not started fails with it.
struct generation_over {
  error reason;
};

struct lane_job;
/// A bundle for the lane. Shared only because messages are copied; the path connector takes what is inside.
using lane_job_ptr = std::shared_ptr<std::unique_ptr<lane_job>>;

using path_connector_actor = caf::typed_actor<
    /// Everybody's path addresses.
    caf::reacts_to<envelope>,
    /// Run this bundle.
    caf::reacts_to<lane_job_ptr>,
    /// Make the lane give up.
    caf::reacts_to<generation_over>,
    /// Call back once the lane has run all it was given.
    caf::reacts_to<drained_atom>,
    /// INTERNAL, from the lane: this member's paths can be reached so.
    caf::reacts_to<path_addresses>,
    /// INTERNAL, from the lane: all paths are connected.
    caf::reacts_to<ready_atom>>;

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::generation_over)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::lane_job_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::path_addresses)
