// `farandole drain`: lets workers of an elastic job leave in order.
#pragma once

#include <string>
#include <vector>

namespace farandole {

/// Takes the words after the command's name. Returns the exit code.
int run_drain(const std::vector<std::string>& words);

} // namespace farandole
