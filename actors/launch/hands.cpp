#include "actors/launch/hands.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "actors/launch/far_slot.hpp"
#include "actors/launch/labelled_output.hpp"

namespace farandole {

std::size_t output_window_bytes(std::size_t workers) {
  constexpr std::size_t most_bytes = 4 << 20, smallest = 16 << 10, largest = 1 << 20;
  return std::clamp(most_bytes / (output_streams * std::max<std::size_t>(workers, 1)), smallest, largest);
}

hands real_hands(caf::actor_system& system, const real_parts& parts) {
  hands made;
  made.slot = [&system, parts, window_bytes = output_window_bytes(parts.workers)](
                  const slot_spec& spec, const slot_owner_actor& driver) -> slot_actor {
    auto sink = std::make_shared<labelled_output>(spec, parts.writer, parts.caller);
    slot_actor spawned;
    if (spec.agent.empty())
      spawned = system.spawn(slot, spec, sink, driver);
    else
      spawned = system.spawn(far_slot, far_slot_spec{spec, true, window_bytes, sink, parts.agents}, driver);
    if (parts.caller_input)
      caf::anon_send(parts.caller_input, slot_made{spec.slot, spawned});
    if (parts.standard_input && spec.process.keeps_input)
      caf::anon_send(parts.standard_input, slot_made{spec.slot, spawned});
    return spawned;
  };
  made.discoverer = [&system](const discoverer_spec& spec, const discovery_owner_actor& driver) {
    return system.spawn(discoverer, spec, driver);
  };
  made.say = [writer = parts.writer](const std::string& line) { writer->write(STDERR_FILENO, line + "\n"); };
  made.wall = [] {
    return wall_time{std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::system_clock::now().time_since_epoch())};
  };
  if (parts.agents)
    made.agents = parts.agents;
  return made;
}

} // namespace farandole
