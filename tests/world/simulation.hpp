// A whole job in one thread on virtual time. The scheduler below draws the next actor with messages from a
// seed, and advances the clock only if no actor has messages. The same seed gives the same order and the same
// trace hash.
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

/// A message of a simulated actor to itself: a delayed step is due.
using tick_atom = caf::atom_constant<caf::atom("tick")>;

class simulated_scheduler;

/// The processor time of this thread, without other work of the machine.
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
  /// For faults drawn by the test from the same seed (a separate stream, so that drawing does not change the
  /// schedule).
  std::mt19937_64& random() { return random_; }

  /// Delivers all messages at the present instant; the clock stands still. False if the step limit is
  /// reached.
  bool run_until_quiet();
  /// Runs until neither messages nor timeouts are left. False if the step limit is reached, for example
  /// because an actor keeps setting timers; use run_for() then.
  bool run_until_idle();
  /// Runs, and advances the clock by exactly `duration`. False if the step limit is reached.
  bool run_for(std::chrono::nanoseconds duration);

  /// Advances the clock at once, without running any actor. May also be called within a run function.
  void jump(std::chrono::nanoseconds duration);

  /// The clock of the world, independent of the running process.
  caf::actor_clock::time_point now() const;
  processes& all_processes();
  /// Continue a stopped process, or all of them.
  void proceed(process_id process);
  void proceed_all();
  /// Depends only on the order of the steps. Two runs of one seed have equal hashes.
  std::uint64_t trace_hash() const;
  /// Timeouts and delayed messages that are still to come.
  std::size_t pending_timers() const;
  /// Messages delivered so far.
  std::uint64_t steps() const;
  /// Measures the processor time of this actor from now on; watched actors run on a separate thread.
  void watch(const caf::actor& actor);
  std::chrono::nanoseconds watched_time() const;
  /// The limit for all run functions together; reaching it indicates a livelock. The default is 50 million.
  void step_limit(std::uint64_t limit);

private:
  struct config;
  std::unique_ptr<config> config_;
  std::unique_ptr<caf::actor_system> system_;
  simulated_scheduler* scheduler_ = nullptr;
  std::mt19937_64 random_;
};

} // namespace farandole::testing
