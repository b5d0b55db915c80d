// The layout of `--help` of the launcher and of `farandole check`: lines that fit a terminal, all names of an
// option, and examples of jobs.
#pragma once

#include <memory>
#include <string>

namespace CLI {
class FormatterBase;
}

namespace farandole {

/// The option's long name behind one dash, or null. argparse supports such names, CLI11 does not.
const char* alias_of(const std::string& option);

std::shared_ptr<CLI::FormatterBase> help_layout();

/// The text behind the options. `program` is the name by which the user has called the program.
std::string help_footer(const std::string& program);

/// The help of `farandole check`.
std::string check_help(const std::string& program);

} // namespace farandole
