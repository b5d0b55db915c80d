// The command-line options of elastic jobs, and the job's rules that follow from them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "messages/values/error.hpp"
#include "tools/farandole/command_line.hpp"

namespace CLI {
class App;
}

namespace farandole {

/// The options as given. The parser knows which of them were given.
struct elastic_options {
  std::int32_t fewest = 0;
  std::int32_t limit = 0;
  std::int32_t slots_per_host = 0;
  std::int32_t reset_limit = 0;
  std::vector<std::int32_t> cooldown;
  std::string journal;
  std::string rendezvous;
};

void add_elastic_options(CLI::App& app, elastic_options& into);

/// Decides whether the job is elastic, and sets its rules in `request`, which must have its number of processes,
/// discovery script and settings already.
error plan_elasticity(const CLI::App& app, const elastic_options& options, run_request& request,
                      std::vector<std::string>& warnings);

/// Replaces the path of a program by one that does not depend on the working directory. Fails if the file cannot be
/// executed, so that the error is reported before any process is started. A text with blanks that is no path of a file
/// is a command for the shell, and stays as it is.
error find_script(std::string& script);

} // namespace farandole
