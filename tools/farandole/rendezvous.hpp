// `farandole rendezvous`: the meeting point of a job alone, for processes that something else starts.
#pragma once

#include <string>
#include <vector>

namespace farandole {

/// Takes the words after the command's name; serves until a signal. Returns the exit code.
int run_rendezvous(const std::vector<std::string>& words);

} // namespace farandole
