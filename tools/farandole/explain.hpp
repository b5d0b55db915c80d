// `farandole explain`: states what the ranks of a job were waiting for.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tools/farandole/cli/option_description.hpp"

namespace farandole {

/// Takes the words after the command's name. Returns the exit code.
int run_explain(const std::vector<std::string>& words);

std::vector<option_description> explain_options();

/// States from the records in the folder what these ranks of a running job are doing: a line each, for those that have a
/// record, and the Python stacks of a few of them, if py-spy is installed and reads them before the deadline.
std::string explain_ranks(const std::string& folder, const std::vector<std::int32_t>& ranks,
                          std::chrono::steady_clock::time_point deadline);

} // namespace farandole
