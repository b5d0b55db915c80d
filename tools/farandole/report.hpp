// `farandole report`: states where the time of a training step goes, and how much of it each rank costs.
#pragma once

#include <string>
#include <vector>

#include "tools/farandole/cli/option_description.hpp"

namespace farandole {

/// Takes the words after the command's name. Returns the exit code.
int run_report(const std::vector<std::string>& words);

std::vector<option_description> report_options();

} // namespace farandole
