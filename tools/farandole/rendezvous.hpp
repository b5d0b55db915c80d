// `farandole rendezvous`: runs the rendezvous of a job without a launcher, for processes that are started by
// other means.
#pragma once

#include <string>
#include <vector>

#include "tools/farandole/cli/option_description.hpp"

namespace farandole {

/// Takes the words after the command's name. Serves until a signal arrives. Returns the exit code.
int run_rendezvous(const std::vector<std::string>& words);

std::vector<option_description> rendezvous_options();

} // namespace farandole
