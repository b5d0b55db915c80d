// What the command line says about elastic jobs, and what it comes to.
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

/// As given; whether one was given is asked of the parser.
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

/// Whether the job is elastic, and its rules. Needs `request.processes`, the script and the settings.
error plan_elasticity(const CLI::App& app, const elastic_options& options, run_request& request,
                      std::vector<std::string>& warnings);

/// Makes the path one that can be started from anywhere; what is wrong with the file is said before anything
/// starts.
error find_script(std::string& script);

} // namespace farandole
