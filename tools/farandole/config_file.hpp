// The YAML file of --config-file as flat keys: sections become "section.key", as the table of settings spells
// them. Read by the command line only, so nothing else needs the YAML library.
#pragma once

#include <map>
#include <string>

#include "messages/values/error.hpp"

namespace farandole {

/// Booleans become 1 and 0. A section `autotune` without `enabled` says that it is off, a section
/// `stall_check` without it that it is on. Empty values are left out.
expected<std::map<std::string, std::string>> parse_config(const std::string& content);

/// The error names the file.
expected<std::map<std::string, std::string>> read_config_file(const std::string& path);

} // namespace farandole
