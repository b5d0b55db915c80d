// `farandole drain`: makes workers of an elastic job leave in an orderly way.
#pragma once

#include <string>
#include <vector>

#include "tools/farandole/cli/option_description.hpp"

namespace farandole {

/// Takes the words after the command's name. Returns the exit code.
int run_drain(const std::vector<std::string>& words);

std::vector<option_description> drain_options();

} // namespace farandole
