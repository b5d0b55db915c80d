// A command of `farandole` as a value. The overview of `farandole help`, shell completion and the manual page are
// generated from a list of these.
#pragma once

#include <string>
#include <vector>

#include "tools/farandole/cli/option_description.hpp"

namespace farandole {

struct command_description {
  std::string name;
  std::string summary;
  std::vector<option_description> options;
  std::vector<std::string> words = {}; ///< possible arguments that are not options, such as "bash"
  std::string options_of = {};         ///< another command, if the options are the same as its options
  bool starts_program = false; ///< whether the first word that is no option begins the command to be started
};

/// The way in which a shell completes the value of an option.
enum class value_kind { file, folder, choice, unknown };

value_kind kind_of_value(const option_description& option);

} // namespace farandole
