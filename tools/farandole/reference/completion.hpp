// Completion of command lines in shells. Each function returns a script that the shell loads; all of them offer the
// commands, the options of each command, and values of options, and leave the words of a training command to the shell.
#pragma once

#include <span>
#include <string>

#include "tools/farandole/reference/command_description.hpp"

namespace farandole {

std::string bash_completion(std::span<const command_description> commands);
std::string zsh_completion(std::span<const command_description> commands);
std::string fish_completion(std::span<const command_description> commands);

} // namespace farandole
