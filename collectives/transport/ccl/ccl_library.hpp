// Finds the module for oneCCL, a plugin path that is installed beside the other libraries. Only builds that
// found oneCCL have the module.
#pragma once

#include <string>

#include "messages/values/error.hpp"

namespace farandole {

/// Returns the full path of the module. If there is none, returns `unimplemented` with instructions. Loads
/// nothing.
expected<std::string> find_ccl_module();

/// Whether the module exists and can be loaded.
bool ccl_works();

} // namespace farandole
