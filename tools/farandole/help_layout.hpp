// How the `--help` of the launcher and of `farandole check` looks: lines that fit a terminal, all names of an
// option, and examples of jobs.
#pragma once

#include <memory>
#include <string>

namespace CLI {
class FormatterBase;
}

namespace farandole {

/// The name behind one dash of this option, or null: argparse has such names, and CLI11 has not.
const char* alias_of(const std::string& option);

std::shared_ptr<CLI::FormatterBase> help_layout();

/// What follows the options; `program` is what the user has called.
std::string help_footer(const std::string& program);

/// The help of `farandole check`.
std::string check_help(const std::string& program);

} // namespace farandole
