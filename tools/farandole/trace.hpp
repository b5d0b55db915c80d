// farandole trace: begins and ends the traces of a running job, and merges traces into one file for Perfetto.
#pragma once

#include <string>
#include <vector>

#include "tools/farandole/cli/option_description.hpp"

namespace farandole {

/// The words follow "trace" on the command line. Returns the exit code.
int run_trace(const std::vector<std::string>& words);

std::vector<option_description> trace_options();

} // namespace farandole
