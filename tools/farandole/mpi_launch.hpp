// The launch by mpirun or jsrun (--mpi, --jsrun): finds the kind of the program, and composes its command line and
// environment for any command that it is to start once for each process. mpi_command.hpp and jsrun_command.hpp decide.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "messages/values/error.hpp"
#include "tools/farandole/command_line.hpp"
#include "tools/farandole/placers/ssh.hpp"

namespace farandole {

/// The program that starts the processes of a job.
struct mpi_launch {
  std::string name; ///< "Open MPI", for messages
  std::vector<std::pair<std::string, std::vector<std::string>>>
      parts;                            ///< parts of `words` and their names, for readers of the command line
  std::vector<std::string> words;       ///< "mpirun", its options, and the command; start it without a shell
  std::vector<std::string> additions;   ///< "NAME=value": needed by mpirun beyond the settings of the job
  std::vector<std::string> environment; ///< complete, as "NAME=value"
};

/// Composes the launch of `command` in each process of the job. Runs mpirun, or the queries of the scheduler, to learn
/// their capabilities; it must be called while this process has only one thread. `later` names variables that the caller
/// adds to the environment and that all processes are to get, and that hold the secret of the job.
expected<mpi_launch> plan_mpi_launch(const run_request& request, const std::vector<std::string>& command,
                                     const ssh_options& remote_shell,
                                     const std::vector<std::string>& later = {});

/// Writes the rank file that `request.rank_file_cpus` asks for. It is removed when the parent of this process has ended,
/// which may become jsrun. Returns its path.
expected<std::string> write_rank_file_for_parent(const run_request& request);

/// A line for `sh` that starts the same, after comments that name the program and the parts.
std::string printed_line(const mpi_launch& launch);

/// Replaces this process by mpirun or jsrun. Returns only if that fails: the exit code, after a message.
int become(const mpi_launch& launch);

} // namespace farandole
