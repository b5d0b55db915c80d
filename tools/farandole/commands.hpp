// The commands of `farandole`: one table from which the overview, shell completion and the manual page are generated.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/farandole/reference/command_description.hpp"

namespace farandole {

std::vector<command_description> command_table();

/// The text of `farandole help`.
std::string overview();

/// "; did you mean 'run'?" for a misspelled command, or an empty string.
std::string nearest_command(const std::string& name);

/// `farandole completion bash|zsh|fish`. Takes the words after the command's name, and returns the exit code.
int show_completion(const std::vector<std::string>& words);

/// `farandole manual`.
int show_manual(const std::vector<std::string>& words, std::string_view version);

} // namespace farandole
