// `farandole build-xla`: compiles Farandole's operations for XLA against the TensorFlow of the command's own
// Python environment.
#pragma once

#include <string>
#include <vector>

namespace farandole {

/// Replaces this process by the Python interpreter that compiles them. Returns an exit code if there is no
/// interpreter or it cannot be executed.
int run_build_xla(const std::string& called_as, const std::vector<std::string>& words);

} // namespace farandole
