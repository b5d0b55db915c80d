// oneCCL is started once in a process and takes most of what it wants to know from the environment, at its
// start and when the first members meet. What a job needs and nobody has set is shown to it there.
#pragma once

#include <string>

#include <farandole/path_plugin.h>

namespace farandole {

/// Starts oneCCL; the members of the first set that asks say which ranks share this host. Empty, or why it
/// cannot be started. Thread-safe.
const std::string& start_oneccl(const farandole_path_set& set);

} // namespace farandole
