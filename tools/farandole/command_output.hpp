// Runs a short command, such as a query of a scheduler, and returns its output. The time and the output are bounded.
// Blocks, so the event loop must not call it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "messages/values/error.hpp"

namespace farandole {

/// Returns the standard output of a command. `environment` is the complete one, as "NAME=value". An error with the
/// command and the reason if it cannot be started, fails, prints more than 16 MiB, or does not end in time; it is then
/// killed.
expected<std::string> output_of(const std::vector<std::string>& command,
                                const std::vector<std::string>& environment,
                                std::chrono::milliseconds timeout);

} // namespace farandole
