// `farandole run`: runs the requested job and returns its exit code.
#pragma once

#include "tools/farandole/command_line.hpp"

namespace farandole {

int run_job(const run_request& request);

} // namespace farandole
