#include "actors/launch/hands.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "actors/launch/far_slot.hpp"
#include "actors/launch/labelled_output.hpp"

namespace farandole {

std::size_t output_window_bytes(std::size_t workers) {
  constexpr std::size_t most_bytes = 8 << 20, smallest = 32 << 10, largest = 1 << 20;
  return std::clamp(most_bytes / (output_streams * std::max<std::size_t>(workers, 1)), smallest, largest);
}

hands real_hands(caf::actor_system& system, output_writer& writer, const agent_registry_actor& agents,
                 std::size_t workers) {
  hands made;
  made.slot = [&system, &writer, agents, window_bytes = output_window_bytes(workers)](
                  const slot_spec& spec, const slot_owner_actor& driver) -> slot_actor {
    auto sink = std::make_shared<labelled_output>(spec, &writer);
    if (spec.agent.empty())
      return system.spawn(slot, spec, sink, driver);
    return system.spawn(far_slot, far_slot_spec{spec, window_bytes, sink, agents}, driver);
  };
  made.discoverer = [&system](const discoverer_spec& spec, const discovery_owner_actor& driver) {
    return system.spawn(discoverer, spec, driver);
  };
  made.say = [&writer](const std::string& line) { writer.write(STDERR_FILENO, line + "\n"); };
  made.wall = [] {
    return wall_time{std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::system_clock::now().time_since_epoch())};
  };
  if (agents)
    made.agents = agents;
  return made;
}

} // namespace farandole
