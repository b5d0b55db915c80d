// Loads Gloo when a job first asks for it. The loaded module hides its symbols, because PyTorch has a Gloo of
// its own with the same names, and calls of one must not bind to the other.
#pragma once

#include "collectives/transport/gloo/gloo_mesh.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Loads the module of this file name. The error names the setting and what to install.
expected<gloo_open*> load_gloo_from(const char* module);

/// Loads the module once; it stays until the process ends. Thread-safe.
const expected<gloo_open*>& load_gloo();

} // namespace farandole
