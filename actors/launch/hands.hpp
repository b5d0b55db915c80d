// How the drivers act on the world: they start workers, run the discovery script and print lines through these
// functions only. The simulated world has an implementation of its own.
#pragma once

#include <caf/all.hpp>

#include <functional>
#include <string>

#include "actors/launch/agent_registry.hpp"
#include "actors/launch/caller_input.hpp"
#include "actors/launch/caller_output.hpp"
#include "actors/launch/discoverer.hpp"
#include "actors/launch/output_writer.hpp"
#include "actors/launch/slot.hpp"
#include "actors/launch/standard_input.hpp"
#include "messages/wire/failed_host.hpp"

namespace farandole {

struct hands {
  /// Makes the slot of a worker on this host, or on the host whose agent the specification names.
  std::function<slot_actor(const slot_spec& spec, const slot_owner_actor& driver)> slot;
  std::function<discoverer_actor(const discoverer_spec& spec, const discovery_owner_actor& driver)>
      discoverer;
  /// Prints a line to standard error.
  std::function<void(const std::string& line)> say;
  std::function<wall_time()> wall;
  /// Starts the agents of other hosts; null if the job has only this host.
  placement_actor agents;
};

/// What the slots of real processes need.
struct real_parts {
  output_writer* writer = nullptr;  ///< must outlive the drivers
  agent_registry_actor agents = {}; ///< may be null
  std::size_t workers = 1; ///< greatest number of workers; the memory for their output is divided among them
  caller_output* caller = nullptr;          ///< may be null; must outlive the drivers
  caller_input_actor caller_input = {};     ///< null if `caller` is
  standard_input_actor standard_input = {}; ///< feeds the slot that keeps its input; null if there is none
};

hands real_hands(caf::actor_system& system, const real_parts& parts);

/// The window of each output stream of a worker on another host: the launcher holds at most 4 MiB of unwritten output
/// for up to 256 streams, and 16 KiB for each stream of larger jobs, before it adds prefixes to the lines.
std::size_t output_window_bytes(std::size_t workers);

} // namespace farandole
