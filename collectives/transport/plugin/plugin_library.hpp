// Libraries with a path of somebody else's (farandole/path_plugin.h), loaded by their names. What they export is
// looked at once, so that a wrong library is a clear error before any job waits for it.
#pragma once

#include <string>

#include "collectives/transport/path_routes.hpp"
#include "messages/values/error.hpp"
#include <farandole/path_plugin.h>

namespace farandole {

/// Loads the library `file`, a full path; it stays until the process ends, and the same file is loaded once.
/// `precondition` when it cannot be used, with the reason. Thread-safe.
expected<const farandole_path_table*> load_plugin_path(const std::string& file);

/// By operation: whether the library moves it.
moved_operations operations_of(const farandole_path_table& library);

/// "the path star (libstar.so) moves allreduce, barrier; Farandole's own paths move broadcast, …": for
/// people, and empty when it moves everything.
std::string what_falls_back(const farandole_path_table& library, const std::string& file);

} // namespace farandole
