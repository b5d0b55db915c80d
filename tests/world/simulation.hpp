// A whole job in one thread on virtual time. The scheduler below picks the next actor that has mail from a
// seed, and moves the clock only when nobody has any; the same seed gives the same order and the same trace
// hash.
#pragma once

#include <caf/all.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "tests/world/processes.hpp"

namespace farandole::testing {

/// To a simulated actor, from itself: what it has put off is due.
using tick_atom = caf::atom_constant<caf::atom("tick")>;

class simulated_scheduler;

/// Processor time of this thread: what others do on this machine is not in it.
std::chrono::nanoseconds thread_time();

/// An actor system without threads. Actors run only inside the run functions; each turn lets one actor, drawn
/// from the seed, take one message.
class simulation {
public:
  explicit simulation(std::uint64_t seed);
  ~simulation();
  simulation(const simulation&) = delete;
  simulation& operator=(const simulation&) = delete;

  caf::actor_system& system() { return *system_; }
  /// For faults drawn by the test from the same seed (a separate stream: drawing moves no schedule).
  std::mt19937_64& random() { return random_; }

  /// Delivers all mail at the present instant; the clock stands still. False when the step limit is hit.
  bool run_until_quiet();
  /// Runs until neither mail nor timeouts are left. False when the step limit is hit, as it is where somebody
  /// keeps setting timers: use run_for there.
  bool run_until_idle();
  /// Runs, and moves the clock forward by exactly this much. False when the step limit is hit.
  bool run_for(std::chrono::nanoseconds duration);

  /// Time goes on at once, and nobody could do anything meanwhile. From within a run function, too.
  void jump(std::chrono::nanoseconds duration);

  /// Of the world, whichever process runs.
  caf::actor_clock::time_point now() const;
  processes& all_processes();
  /// A process that was stopped goes on; or all of them do.
  void proceed(process_id process);
  void proceed_all();
  /// Depends on who ran when, and on nothing else. Two runs of one seed have equal hashes.
  std::uint64_t trace_hash() const;
  /// Timeouts and delayed messages that are still to come.
  std::size_t pending_timers() const;
  /// Messages delivered so far.
  std::uint64_t steps() const;
  /// Adds up the processor time that these actors take from now on; they run on a thread of their own.
  void watch(const caf::actor& actor);
  std::chrono::nanoseconds watched_time() const;
  /// Of all run functions together; a limit that is hit names a livelock. 50 million at first.
  void step_limit(std::uint64_t limit);

private:
  struct config;
  std::unique_ptr<config> config_;
  std::unique_ptr<caf::actor_system> system_;
  simulated_scheduler* scheduler_ = nullptr;
  std::mt19937_64 random_;
};

} // namespace farandole::testing
