// How processes that mpirun started become a job: MPI tells them how many they are, rank 0 serves the
// rendezvous, and where it listens and the job's secret go to the others over MPI. From there on the job is
// like any other, and MPI moves tensors only where the settings ask for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/interfaces.hpp"
#include "actors/kit/log.hpp"
#include "actors/kit/loop.hpp"
#include "messages/error.hpp"
#include "messages/settings.hpp"

namespace farandole {

struct mpi_job;

/// What there is to know before MPI is asked.
struct mpi_facts {
  std::vector<std::int32_t> ranks; ///< of MPI's world, that are to be the job; empty: all
  std::int32_t launched = 0; ///< how many processes mpirun started, as the environment tells; 0: it did not
};

/// From the environment of Open MPI, or of a process manager that speaks PMI.
std::int32_t launched_by_mpi(const environment_lookup& environment);

/// Whether the job needs MPI: to come together, or because a setting asks for it.
bool needs_mpi(const settings& values, const mpi_facts& facts);

class mpi_start {
public:
  /// Meets the others and completes what the settings and the secret lack: rank, size, and where the
  /// rendezvous is. Blocks at most the start timeout. The logger outlives it.
  static expected<std::unique_ptr<mpi_start>> meet(settings& values, std::string& secret,
                                                   const mpi_facts& facts, logger& log);
  /// Ends the rendezvous, where it is served here.
  ~mpi_start();
  mpi_start(const mpi_start&) = delete;
  mpi_start& operator=(const mpi_start&) = delete;

  std::shared_ptr<const mpi_job> job() const { return job_; }
  /// Whether MPI brought the job together, rather than a launcher.
  bool brought_together() const { return brought_together_; }
  /// Whether any thread may call MPI.
  bool threads() const;

private:
  mpi_start() = default;
  error serve(const settings& values, const std::string& secret, logger& log);
  error share(settings& values, std::string& secret, std::chrono::steady_clock::time_point until);

  std::shared_ptr<mpi_job> job_;
  bool brought_together_ = false;
  std::string ip_;
  std::uint16_t port_ = 0;
  std::string made_secret_;             ///< empty: the job had one
  std::unique_ptr<loop_system> system_; ///< of the rendezvous
  rendezvous_actor rendezvous_;
};

} // namespace farandole
