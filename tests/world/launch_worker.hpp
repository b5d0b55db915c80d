// The slot of a simulated worker on a host with an agent. It has the interface of actors/launch/slot.hpp: it prints
// while its sink has room, ends after its time or by a signal, and reports both ends as the real slot does.
#pragma once

#include <caf/all.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "actors/launch/slot.hpp"
#include "tests/world/dice.hpp"

namespace farandole::testing {

struct worker_plan {
  std::chrono::milliseconds lasts{1000};
  std::size_t bytes = 0;        ///< of output on each of the first two streams
  bool prints_for_ever = false; ///< prints until it is ended by a signal
  bool ignores_sigterm = false;
  bool cannot_start = false;
  int code = 0;
};

/// A worker's process as the test sees it.
struct worker_process {
  std::int32_t slot = 0;
  worker_plan plan;
  bool runs = false;
  bool signalled = false;
  std::size_t written[2] = {}; ///< by stream
};

/// Accepts the messages of a slot_actor. `process` is updated while it runs.
caf::actor simulated_slot(caf::actor_system& system, const slot_spec& spec,
                          std::shared_ptr<worker_process> process, std::shared_ptr<output_sink> sink,
                          slot_owner_actor owner, std::uint64_t seed);

} // namespace farandole::testing
