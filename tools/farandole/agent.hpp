// `farandole agent`: serves a launcher on this host.
#pragma once

#include <string>
#include <vector>

namespace farandole {

/// `program` is the path of this program, for messages.
int run_agent_command(const std::string& program, const std::vector<std::string>& words);

} // namespace farandole
