#include "tests/world/later.hpp"

#include <caf/all.hpp>

#include <utility>

namespace farandole::testing {

void later(simulation& world, process_id process, std::chrono::nanoseconds wait,
           std::function<void()> action) {
  const running_process scope(world.all_processes(), process);
  world.system().spawn([wait, action = std::move(action)](caf::event_based_actor* self) {
    self->delayed_send(self, wait, tick_atom::value);
    return caf::behavior{[=](tick_atom) {
      action();
      self->quit();
    }};
  });
}

} // namespace farandole::testing
