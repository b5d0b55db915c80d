// farandole dump: writes the event records of a running job to files.
#pragma once

#include <string>
#include <vector>

#include "tools/farandole/cli/option_description.hpp"

namespace farandole {

/// The words follow "dump" on the command line. Returns the exit code.
int run_dump(const std::vector<std::string>& words);

std::vector<option_description> dump_options();

} // namespace farandole
