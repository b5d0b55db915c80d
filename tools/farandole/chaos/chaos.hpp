// `farandole chaos`: trains under faults drawn from a seed, and tells how each was got over.
#pragma once

#include <string>
#include <vector>

namespace farandole {

/// Takes what this program was called as, and the words after the command's name. Returns the exit code.
int run_chaos(const std::string& called_as, const std::vector<std::string>& words);

} // namespace farandole
