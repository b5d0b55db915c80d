// The process manager of the launcher that started this process (MPICH's Hydra, Slurm, PRRTE …), which knows all
// processes of the job before they know each other. They use it once, in init(), to find the rendezvous (job_meeting.hpp).
#pragma once

#include <cstdint>
#include <mutex>

#include "actors/pmi/key_value_space.hpp"
#include "elastic/foreign_launch.hpp"

namespace farandole {

class process_manager : public key_value_space {
public:
  /// Tells the process manager that this process ends in order. Otherwise mpirun takes its end for a failure and kills
  /// the other processes, even if the exit code is 0.
  virtual void finish(time_point deadline) = 0;

  /// The number of this exchange, by which keys of a second init() differ from those of the first. All processes call
  /// init() equally often.
  std::int32_t begin_exchange() { return ++exchanges_; }
  /// Locked during an exchange, whose requests must not be mixed with those of another thread that calls init().
  std::mutex& guard() { return guard_; }

private:
  std::mutex guard_;
  std::int32_t exchanges_ = 0;
};

/// The process manager of this process, to which it connects at the first call. There is one connection in a process,
/// because the launcher gave it one; it is used again by later calls of init(), and by an MPI library that is loaded
/// later. It is finished when the process ends: a process manager accepts nothing more afterwards. Thread-safe.
expected<process_manager*> process_manager_of(const foreign_launch& launch,
                                              process_manager::time_point deadline);

} // namespace farandole
