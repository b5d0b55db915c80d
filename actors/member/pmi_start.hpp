// Start of a job whose processes were started by mpirun or srun, without MPI. The launcher's process manager provides
// rank and size, and the space in which the ranks meet (actors/pmi/job_meeting.hpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "actors/pmi/job_meeting.hpp"
#include "actors/pmi/process_manager.hpp"
#include "elastic/foreign_launch.hpp"
#include "messages/settings/settings.hpp"
#include "messages/values/error.hpp"

namespace farandole {

class pmi_start {
public:
  using time_point = process_manager::time_point;

  /// Whether this process has to find its job in this way.
  static bool applies(const settings& values, const foreign_launch& launch);

  /// Connects to the process manager of this process and calls meet(). Blocks at most for the start timeout.
  static expected<std::unique_ptr<pmi_start>> meet(settings& values, std::string& secret,
                                                   const foreign_launch& launch);

  /// Meets the other ranks. Fills in rank, size, the address of the rendezvous
  /// and the secret; the address stays empty in a job of one process.
  static expected<std::unique_ptr<pmi_start>> meet(settings& values, std::string& secret,
                                                   const foreign_launch& launch, process_manager& manager,
                                                   time_point deadline);

  /// Whether any thread may call MPI beside Farandole, which does not call it in this job.
  bool mpi_threads() const { return mpi_threads_; }

private:
  explicit pmi_start(const settings& values) : mpi_threads_(!values.flag(setting::mpi_threads_disable)) {}

  bool mpi_threads_;
  std::unique_ptr<served_rendezvous> rendezvous_; ///< only on rank 0
};

} // namespace farandole
