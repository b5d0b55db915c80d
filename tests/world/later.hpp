// Actions of a test that happen in a simulated job after a while, in virtual time.
#pragma once

#include <chrono>
#include <functional>

#include "tests/world/processes.hpp"
#include "tests/world/simulation.hpp"

namespace farandole::testing {

/// Calls `action` once, after `wait` by the clock of `process`, in which it then runs. If the process is stopped, the
/// action waits for it to continue.
void later(simulation& world, process_id process, std::chrono::nanoseconds wait,
           std::function<void()> action);

} // namespace farandole::testing
