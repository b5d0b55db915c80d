// Detection of mistyped environment variables, which would otherwise be silently ignored. Variables called
// FARANDOLE_* or HOROVOD_* are compared with all known ones: those of the settings table, and others that are
// not settings and are listed in known_variables.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace farandole {

/// Whether a setting has this variable, or something else reads it, or it is one of Horovod's that users may
/// have set for other purposes (building Horovod, for example).
bool is_known_variable(std::string_view name);

/// One line that names those variables of an environment that are called FARANDOLE_* or HOROVOD_* and are
/// not known, each with the nearest known name; empty if there are none.
std::string unknown_variables_warning(std::span<const std::string> variables);

/// Names of the variables of this process' environment.
std::vector<std::string> process_variables();

} // namespace farandole
