// `farandole chaos`: trains under faults drawn from a seed, and reports the recovery from each fault.
#pragma once

#include <string>
#include <vector>

namespace farandole {

/// `called_as` is argv[0] of this program, `words` are the words after the command's name. Returns the exit
/// code.
int run_chaos(const std::string& called_as, const std::vector<std::string>& words);

} // namespace farandole
