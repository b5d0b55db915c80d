// Reads the YAML file of --config-file as flat keys: a key in a section becomes "section.key", as in the table
// of settings. Used by the command line only, so that the rest does not depend on the YAML library.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "messages/values/error.hpp"

namespace farandole {

struct config_file {
  std::map<std::string, std::string> values; ///< by key
  std::map<std::string, std::string> places; ///< by key, for messages: "config file job.yaml, line 3"
};

/// Booleans become 1 and 0. If `enabled` is missing, a section `autotune` is off and a section `stall_check` is
/// on. Empty values are left out. `path` is that of the file with this content; the error names it and the line.
expected<config_file> parse_config(const std::string& path, const std::string& content);
expected<config_file> read_config_file(const std::string& path);

/// Removes the keys that no setting has, and returns a warning for each. The values of switches become 1 and 0. The error
/// names the place and the key of a value that its setting cannot have.
expected<std::vector<std::string>> check_config(config_file& file);

/// The error of a wrong list of core ids, which was given under this name. `place` precedes the name in the text.
error not_cores(const std::string& place, std::string_view name, std::string_view text);

/// `farandole settings --config-file`: checks the file, and prints a line KEY=VALUE for each setting in it, for programs
/// that do not read YAML themselves. Returns the exit code.
int show_config_file(const std::string& path);

} // namespace farandole
