// The process manager of the launcher that started this process (MPICH's Hydra, Slurm, PRRTE …), which knows all
// processes of the job before they know each other. They use it once, in init(), to find the rendezvous: each process
// puts texts under keys, all meet in a fence, and afterwards each can get what the others put.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

#include "elastic/foreign_launch.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// All functions block until the deadline at most, so they must not be called on the loop. Values are short (1000
/// bytes at most), printable and without spaces. After an error the process manager cannot be used again: a request
/// that was not answered cannot be taken back.
class process_manager {
public:
  using time_point = std::chrono::steady_clock::time_point;

  process_manager() = default;
  process_manager(const process_manager&) = delete;
  process_manager& operator=(const process_manager&) = delete;
  virtual ~process_manager() = default;

  virtual std::int32_t rank() const = 0;
  virtual std::int32_t size() const = 0;
  /// Each key is used once per process.
  virtual error put(const std::string& key, const std::string& value, time_point deadline) = 0;
  /// Returns when all processes of the job have called it.
  virtual error fence(time_point deadline) = 0;
  /// What `rank` put before the last fence; an error if it put nothing.
  virtual expected<std::string> get(std::int32_t rank, const std::string& key, time_point deadline) = 0;
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
