// Chooses how the agents of a job's hosts are started: by the scheduler in whose job the launcher runs, by mpirun or
// jsrun, by ssh, or by a remote shell that the user has named.
#pragma once

#include "messages/values/error.hpp"
#include "tools/farandole/command_line.hpp"
#include "tools/farandole/placers/ssh.hpp"

namespace farandole {

/// The remote shell of a job: FARANDOLE_RSH, else OMPI_MCA_plm_rsh_agent, else blaunch in a job of LSF, else ssh. An
/// error if its words cannot be read. `program` is the path of this program.
expected<ssh_options> remote_shell_of(const run_request& request, const std::string& program,
                                      const environment_lookup& environment = process_environment());

/// The placer of a job whose hosts are reached from the launcher's addresses `launcher`.
placer placer_of(const run_request& request, ssh_options remote_shell,
                 const std::vector<std::string>& launcher);

/// A placer that prints each command for --verbose when it is started.
placer telling_placer(placer silent);

/// The names by which the launcher knows the agents that mpirun or jsrun starts, one for each process.
std::vector<host_slots> hosts_of_ranks(std::int32_t processes);

/// A placer that lets mpirun or jsrun start an agent in the place of each process.
expected<placer> mpi_placer(const run_request& request, ssh_options remote_shell,
                            const std::vector<std::string>& launcher);

} // namespace farandole
