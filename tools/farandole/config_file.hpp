// Reads the YAML file of --config-file as flat keys: a key in a section becomes "section.key", as in the table
// of settings. Used by the command line only, so that the rest does not depend on the YAML library.
#pragma once

#include <map>
#include <string>

#include "messages/values/error.hpp"

namespace farandole {

/// Booleans become 1 and 0. If `enabled` is missing, a section `autotune` is off and a section `stall_check` is
/// on. Empty values are left out.
expected<std::map<std::string, std::string>> parse_config(const std::string& content);

/// The error names the file.
expected<std::map<std::string, std::string>> read_config_file(const std::string& path);

/// `farandole settings --config-file`: prints a line KEY=VALUE for each, for programs that do not read YAML themselves.
/// Returns the exit code.
int show_config_file(const std::string& path);

} // namespace farandole
