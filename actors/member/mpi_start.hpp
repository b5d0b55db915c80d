// How processes that mpirun started become a job: MPI tells them how many they are, rank 0 serves the
// rendezvous, and its address and the job's secret go to the others over MPI. From there on the job is
// like any other, and MPI moves tensors only where the settings ask for it.
#pragma once

#include <chrono>
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

/// What there is to know before MPI is asked.
struct mpi_facts {
  std::vector<std::int32_t> ranks;           ///< of MPI's world, that are to be the job; empty: all
  std::optional<foreign_launch> launch = {}; ///< another launcher that started this process

  /// MPI can say who belongs to the job.
  bool launched_by_mpi() const { return launch && launch->by == gathering::mpi; }
};

/// Whether the job needs MPI: to come together, or because a setting asks for it.
bool needs_mpi(const settings& values, const mpi_facts& facts);

class mpi_start {
public:
  /// Meets the others and completes what the settings and the secret lack: rank, size, and the address of the
  /// rendezvous. Blocks at most the start timeout. Null: the job is this process alone, without MPI.
  static expected<std::unique_ptr<mpi_start>> meet(settings& values, std::string& secret,
                                                   const mpi_facts& facts);
  mpi_start(const mpi_start&) = delete;
  mpi_start& operator=(const mpi_start&) = delete;

  std::shared_ptr<const mpi_job> job() const { return job_; }
  /// Whether MPI brought the job together, rather than a launcher.
  bool brought_together() const { return brought_together_; }
  /// Whether any thread may call MPI.
  bool threads() const;

private:
  mpi_start() = default;
  error serve(const settings& values, const std::string& given_secret);
  error share(settings& values, std::string& secret, std::chrono::steady_clock::time_point deadline);

  std::shared_ptr<mpi_job> job_;
  bool brought_together_ = false;
  std::unique_ptr<served_rendezvous> rendezvous_; ///< on rank 0 of a job that MPI brought together
};

} // namespace farandole
