// A batch scheduler (Slurm, LSF, PBS) tells the processes of a job by environment variables and files which hosts
// it has allocated, and how many slots on each. This decision reads them, so that neither -H nor -np is needed
// inside an allocation.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "elastic/host_slots.hpp"
#include "messages/settings/settings.hpp"
#include "messages/values/error.hpp"

namespace farandole {

enum class batch_scheduler : std::uint8_t { none, slurm, lsf, pbs };
std::string_view to_string(batch_scheduler scheduler);

/// Returns the content of a file, or an error that says why it cannot be read.
using file_reader = std::function<expected<std::string>(const std::string& path)>;

/// The allocation of this process.
struct scheduler_hosts {
  batch_scheduler scheduler = batch_scheduler::none;
  /// In the scheduler's order, each with at least one slot, and at most `most_slots` slots altogether. Empty
  /// outside of an allocation, and where `csm_allocation` is set.
  std::vector<host_slots> hosts;
  /// The id of the CSM allocation of an LSF job. The lists of LSF begin with the launch host there, which has no
  /// GPUs; CSM must be asked for the compute hosts.
  std::string csm_allocation;
};

/// The scheduler in whose job this process runs: Slurm if SLURM_JOB_ID or SLURM_JOB_NODELIST is set, else LSF if
/// LSB_JOBID is set, else PBS if PBS_JOBID or PBS_NODEFILE is set. An empty variable counts as unset. A task of srun is
/// not in a job in this sense, because the hosts of the job are not its own: the other tasks of its step may run there.
batch_scheduler find_batch_scheduler(const environment_lookup& environment);

/// The hosts of that scheduler's job, from
///
/// - Slurm: SLURM_JOB_NODELIST, with the slots of SLURM_TASKS_PER_NODE. That variable wins because it has a number
///   for each host. Only where it is unset, SLURM_NTASKS processes are spread evenly over the hosts, and the first
///   hosts get the remainder; where that is unset, too, every host has the SLURM_CPUS_ON_NODE slots of this host.
/// - LSF: CSM if CSM_ALLOCATION_ID is set, else LSB_DJOB_HOSTFILE (a line for each slot), else LSB_MCPU_HOSTS
///   ("h1 4 h2 4").
/// - PBS: PBS_NODEFILE (a line for each slot).
///
/// The error names the variable, its value and the remedy. Reads files only through `read_file`.
expected<scheduler_hosts> find_scheduler_hosts(const environment_lookup& environment,
                                               const file_reader& read_file);

} // namespace farandole
