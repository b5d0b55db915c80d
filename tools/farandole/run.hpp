// `farandole run`: runs the requested job and returns its exit code.
#pragma once

#include <string>

#include "tools/farandole/command_line.hpp"

namespace farandole {

/// `program` is the path of this program, which starts the agents on other hosts that have it under the same path.
int run_job(const run_request& request, const std::string& program);

} // namespace farandole
