// `farandole agent`: serves a launcher on this host.
#pragma once

#include <string>
#include <vector>

#include "tools/farandole/cli/option_description.hpp"

namespace farandole {

/// `program` is the path of this program, for messages.
int run_agent_command(const std::string& program, const std::vector<std::string>& words);

std::vector<option_description> agent_options_of_command();

} // namespace farandole
