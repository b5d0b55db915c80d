// Starts oneCCL, once in a process. oneCCL reads most of its settings from the environment, when it starts
// and when the first communicator is created. start_oneccl() sets those that the job needs and the user has
// not set.
#pragma once

#include <string>

#include <farandole/path_plugin.h>

namespace farandole {

/// Starts oneCCL on the first call; the process set of that call determines which ranks share this host.
/// Returns an empty text, or the reason why oneCCL cannot be started. Thread-safe.
const std::string& start_oneccl(const farandole_path_set& set);

} // namespace farandole
