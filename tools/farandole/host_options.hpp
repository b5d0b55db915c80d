// The command-line options that name the hosts of a job and the number of its processes, and the hosts that follow from
// them: those of the user, those of the job of a batch scheduler, or this one.
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
struct host_options {
  std::int32_t processes = 0;
  std::int32_t ssh_port = 0;
  std::string hosts, hostfile, agents, remote_hosts;
};

/// Adds all of them but the number of processes. Those whose values need no check go to `request`.
void add_host_options(CLI::App& app, host_options& into, run_request& request);

/// Finds the hosts, where they are known before the job runs.
error find_hosts(const CLI::App& app, const host_options& options, run_request& request,
                 const surroundings& around);

/// Finds the number of processes, once the hosts are found. `fewest_workers`: of an elastic job.
error find_size(const CLI::App& app, const host_options& options, std::int32_t fewest_workers,
                run_request& request, const surroundings& around);

/// Checks the hosts, or takes this one, once the number of processes and the rules of an elastic job are known.
error check_hosts(const host_options& options, run_request& request);

/// Warns of options that have no effect because ssh does not reach the hosts, once these are known.
void warn_of_unused_host_options(const CLI::App& app, const host_options& options, const run_request& request,
                                 const surroundings& around, std::vector<std::string>& warnings);

} // namespace farandole
