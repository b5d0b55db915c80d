// Links between the message routers of a simulated job, which replace sockets and TLS. Messages on one link
// arrive in order after some time, and are parsed from their bytes; messages on different links overtake each
// other.
#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <functional>
#include <string>

#include "actors/event_loop/link_id.hpp"
#include "tests/world/set_play.hpp"

namespace farandole::testing {

/// One direction of a link: a link_actor whose messages arrive at `taker` as those of its link `number`.
caf::actor wire(caf::actor_system& system, const set_options& options, std::uint64_t stream, caf::actor taker,
                link_id number, std::function<void(std::string)> problem);

} // namespace farandole::testing
