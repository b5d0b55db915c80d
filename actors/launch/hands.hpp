// How the drivers act on the world: they start workers, run the discovery script and print lines through these
// functions only. The simulated world has an implementation of its own.
#pragma once

#include <caf/all.hpp>

#include <functional>
#include <string>

#include "actors/launch/agent_registry.hpp"
#include "actors/launch/discoverer.hpp"
#include "actors/launch/output_writer.hpp"
#include "actors/launch/slot.hpp"
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

/// Real processes. `writer` must outlive the drivers. `agents` may be null. `workers` is the greatest number of workers
/// that run at once; the memory for their output is divided among them.
hands real_hands(caf::actor_system& system, output_writer& writer, const agent_registry_actor& agents,
                 std::size_t workers);

/// The window of each output stream of a worker on another host: the launcher holds at most 8 MiB of unwritten output
/// for up to 256 streams, and 32 KiB for each stream of larger jobs.
std::size_t output_window_bytes(std::size_t workers);

} // namespace farandole
