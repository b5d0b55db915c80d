// Gloo is loaded when a job first asks for it, in a module that keeps it to itself: PyTorch brings a Gloo of
// its own under the same names, and neither may be taken for the other.
#pragma once

#include "collectives/transport/gloo/gloo_mesh.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Loads that module. The error names the setting and what to install.
expected<gloo_open*> load_gloo_from(const char* module);

/// Loads the module once; it stays until the process ends. Thread-safe.
const expected<gloo_open*>& load_gloo();

} // namespace farandole
