// Start of a job that uses MPI, because a setting or the caller of init() asks for it. MPI provides rank and size, and the
// messages by which the ranks meet (actors/pmi/job_meeting.hpp). Jobs that mpirun or srun started and that do not ask for
// MPI use pmi_start.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/rendezvous/served_rendezvous.hpp"
#include "elastic/foreign_launch.hpp"
#include "messages/settings/settings.hpp"
#include "messages/values/error.hpp"

namespace farandole {

struct mpi_job;

/// Facts about the start of this process that are known before MPI is initialised.
struct mpi_facts {
  std::vector<std::int32_t> ranks;           ///< ranks of MPI's world that form the job; empty: all
  std::optional<foreign_launch> launch = {}; ///< the foreign launcher that started this process, if any

  /// Whether MPI can tell which processes belong to the job.
  bool launched_by_mpi() const { return launch && launch->starts_mpi; }
};

/// Whether the job needs MPI: a setting asks for it, or the job consists of ranks of MPI.
bool needs_mpi(const settings& values, const mpi_facts& facts);

class mpi_start {
public:
  /// Meets the other ranks. Fills in missing settings (rank, size and the
  /// address of the rendezvous) and the secret. Blocks at most for the start timeout. Returns null if this process
  /// alone is the job, without MPI.
  static expected<std::unique_ptr<mpi_start>> meet(settings& values, std::string& secret,
                                                   const mpi_facts& facts);
  mpi_start(const mpi_start&) = delete;
  mpi_start& operator=(const mpi_start&) = delete;

  std::shared_ptr<const mpi_job> job() const { return job_; }
  /// Whether the job was started by MPI alone, and not by a launcher with a rendezvous of its own.
  bool brought_together() const { return brought_together_; }
  /// Whether any thread may call MPI.
  bool threads() const;

private:
  mpi_start() = default;

  std::shared_ptr<mpi_job> job_;
  bool brought_together_ = false;
  std::unique_ptr<served_rendezvous> rendezvous_; ///< only on rank 0, if brought_together_
};

} // namespace farandole
