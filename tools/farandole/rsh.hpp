// `farandole rsh`: runs a command on a host of a running job.
#pragma once

#include <string>
#include <vector>

#include "tools/farandole/cli/option_description.hpp"

namespace farandole {

/// Takes the words after the command's name. Returns the exit code, or replaces this process by the command.
int run_rsh(const std::vector<std::string>& words);

std::vector<option_description> rsh_options();

} // namespace farandole
