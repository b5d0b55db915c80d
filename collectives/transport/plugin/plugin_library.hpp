// Loads third-party libraries that implement a path (farandole/path_plugin.h), by file name. Their exports
// are checked at load, so that an unsuitable library gives a clear error before any job waits for it.
#pragma once

#include <string>

#include "collectives/transport/path_routes.hpp"
#include "messages/values/error.hpp"
#include <farandole/path_plugin.h>

namespace farandole {

/// Loads the library `file`, a full path. The library stays loaded until the process ends, and the same file
/// is loaded once. `precondition`, with the reason, if it cannot be used. Thread-safe.
expected<const farandole_path_table*> load_plugin_path(const std::string& file);

/// The operations that the library moves.
moved_operations operations_of(const farandole_path_table& library);

/// A message for users, such as "the path star (libstar.so) moves allreduce, barrier; Farandole's own paths
/// move broadcast, …". Empty if the library moves all operations.
std::string what_falls_back(const farandole_path_table& library, const std::string& file);

} // namespace farandole
