// oneCCL sits behind the interface for paths from outside, in a module of our own beside the others: here is
// where it lies. Only builds that found oneCCL have it.
#pragma once

#include <string>

#include "messages/values/error.hpp"

namespace farandole {

/// The module's full path. `unimplemented` where there is none, with what to do. Loads nothing.
expected<std::string> find_ccl_module();

/// Whether there is a module, and it loads.
bool ccl_works();

} // namespace farandole
