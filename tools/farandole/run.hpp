// `farandole run`: from what a person asked for to the exit code of the job.
#pragma once

#include "tools/farandole/command_line.hpp"

namespace farandole {

int run_job(const run_request& request);

} // namespace farandole
