// `farandole build-xla`: compiles Farandole's operations for XLA against the TensorFlow of the environment
// that the command belongs to.
#pragma once

#include <string>
#include <vector>

namespace farandole {

/// Becomes the interpreter that does it; returns only when there is none, with an exit code.
int run_build_xla(const std::string& called_as, const std::vector<std::string>& words);

} // namespace farandole
