// Launchers other than horovodrun (mpirun, srun, jsrun, torchrun, a user) describe a process's place in its
// job by environment variables. A process that ignores them trains alone and exits with code 0. This table
// says which launcher started the process, with which rank and size, so that init() joins that job or fails.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "messages/settings/settings.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// The mechanism by which the processes of such a job can find each other.
enum class gathering : std::uint8_t {
  nothing,    ///< Farandole cannot find the job
  pmi,        ///< PMI-1, over the inherited socket PMI_FD
  pmix,       ///< PMIx, through the launcher's library
  torch_store ///< the TCPStore at MASTER_ADDR:MASTER_PORT
};

/// One launcher's description of this process.
struct foreign_launch {
  std::string_view launcher; ///< "mpirun of Open MPI"; for messages
  std::string_view rank_variable;
  std::string_view size_variable; ///< empty: the launcher does not publish the size
  std::int32_t rank = -1;         ///< -1: unknown
  std::int32_t size = 0;          ///< 0: unknown
  gathering by = gathering::nothing;
  std::string_view remedy; ///< which command to use instead, where the job cannot be found
  bool starts_mpi = false; ///< an MPI library finds the same processes
  std::string channel;     ///< the value of PMI_FD or PMIX_NAMESPACE, for `pmi` and `pmix`

  /// Whether the launcher's process manager tells which processes belong to the job.
  bool has_process_manager() const { return by == gathering::pmi || by == gathering::pmix; }

  /// The launcher does not rule out that other processes belong to the job.
  bool may_have_others() const { return size != 1; }
  /// "according to jsrun (JSM_NAMESPACE_RANK, JSM_NAMESPACE_SIZE), this process is rank 1 of 2".
  std::string text() const;
  /// The remedy, to follow a colon.
  std::string advice() const;
};

/// The launcher of this process. Where several describe it, the innermost one whose job may have other
/// processes counts: torchrun runs inside srun or mpirun, and processes that Open MPI starts on other hosts
/// of a Slurm job are inside a Slurm step.
std::optional<foreign_launch> find_foreign_launch(const environment_lookup& environment);

/// The values of all variables by which a launcher, horovodrun included, passes a process its place, as one
/// text. A process with the same text as its parent inherited the variables and has no place of its own.
std::string place_in_environment(const environment_lookup& environment);

/// Whether this process is a task of a step that srun started, and not the batch script or the shell of a job of Slurm.
bool is_slurm_task(const environment_lookup& environment);

/// Whether HOROVOD_SIZE=1 is set: the process is then a job of its own, regardless of its launcher.
bool is_meant_to_be_alone(const settings& values);

/// The job that this process has to join through the TCPStore, unless horovodrun started the process or it is
/// meant to be alone.
std::optional<foreign_launch> torch_store_launch(const environment_lookup& environment,
                                                 const settings& values);

/// The error if the launcher contradicts that this process is rank `found_rank` of a job of `found_size`; kind
/// none if it does not.
error objection_to_job(const foreign_launch& launch, std::int32_t found_rank, std::int32_t found_size);

} // namespace farandole
