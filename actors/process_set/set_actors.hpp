// The handles of a process set's tree on one member (actors/process_set/set_tree.hpp).
#pragma once

#include <cstdint>
#include <vector>

#include "actors/interfaces/lane.hpp"
#include "actors/interfaces/message_router.hpp"
#include "actors/interfaces/negotiation.hpp"
#include "actors/interfaces/set_client.hpp"

namespace farandole {

/// Complete once all children have started; null where the child does not run on this member.
struct set_actors {
  fusion_scheduler_actor scheduler;
  negotiator_actor negotiator;
  envelope_actor address_exchange;
  path_connector_actor connector;
  set_client_actor client;
  relay_actor relay;

  /// The routes for the message router.
  set_entered entered(std::uint32_t number, std::vector<std::int32_t> ranks) const;
};

} // namespace farandole
