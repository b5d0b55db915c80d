// `farandole drain`: makes workers of an elastic job leave in an orderly way.
#pragma once

#include <string>
#include <vector>

namespace farandole {

/// Takes the words after the command's name. Returns the exit code.
int run_drain(const std::vector<std::string>& words);

} // namespace farandole
