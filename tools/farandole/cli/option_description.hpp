// The options of a command as values, read from the CLI11 app that parses them and prints the help. Shell completion and
// the manual page are generated from these values, so that they agree with the help.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace farandole {

struct option_description {
  std::vector<std::string> names; ///< all names, such as "-np" and "--num-proc"
  std::string doc;
  std::string value; ///< placeholder of the value in the help, such as "FILE"; empty: takes none
  int values = 0;    ///< number of values that follow
  std::vector<std::string> choices; ///< all possible values; empty: not a choice
  std::string heading;              ///< of the help's section that lists the option
};

/// The names of an option, long ones first, with "-np" for --num-proc. Empty for a positional.
std::vector<std::string> option_names(const CLI::Option& option);

/// The options that the help of `app` shows, in the order of their definition.
std::vector<option_description> describe_options(const CLI::App& app);

} // namespace farandole
