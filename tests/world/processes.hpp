// The processes of a simulated world, if they are told apart: maps actors to processes. A process can be
// stopped like by SIGSTOP: its actors take no messages until it continues, and then take all messages that
// have arrived. Each process has its own clock with an offset and a drift, so that code which compares the
// clocks of two processes fails.
#pragma once

#include <caf/all.hpp>
#include <caf/detail/test_actor_clock.hpp>

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace farandole::testing {

/// A simulated process: 0 is the launcher, negative numbers are separate rendezvous, and positive numbers are
/// workers.
using process_id = std::int32_t;
inline constexpr process_id launcher_process = 0;
/// The network and the test itself. They are never stopped, and have the clock of the world.
inline constexpr process_id no_process = std::numeric_limits<process_id>::min();

/// Converts between the clock of the world and the clock of a process.
struct process_clock {
  using time_point = caf::actor_clock::time_point;

  std::chrono::nanoseconds ahead{0};
  std::int64_t faster_ppm = 0; ///< drift in microseconds per second

  time_point local(time_point world) const;
  /// The earliest time of the world at which the clock shows `local`, or a moment later.
  time_point world(time_point local) const;
};

class processes {
public:
  /// From now on processes are told apart. Before, all actors are in one process that never stops.
  void tell_apart() { apart_ = true; }
  bool told_apart() const { return apart_; }

  /// An actor belongs to the process in which it was spawned, unless it is assigned to another one.
  void assign(caf::actor_id actor, process_id process);
  process_id of(caf::actor_id actor) const { return actor < owners_.size() ? owners_[actor] : no_process; }
  /// The actor was spawned by the process that runs now.
  void spawned(caf::actor_id actor);

  void stop(process_id process) { stopped_.insert(process); }
  bool stopped(process_id process) const { return stopped_.contains(process); }
  /// Keeps a job of an actor of a stopped process.
  void hold(process_id process, caf::resumable* job) { held_[process].push_back(job); }
  /// Continues the process, and returns its kept jobs.
  std::vector<caf::resumable*> proceed(process_id process);
  /// Continues all processes, and returns their kept jobs.
  std::vector<caf::resumable*> proceed_all();

  void give_clock(process_id process, process_clock clock) { clocks_[process] = clock; }
  /// The clock of the process that runs now.
  process_clock clock() const;

  /// The process that runs now; set while one of its actors runs.
  process_id running() const { return running_; }
  process_id run(process_id process) { return std::exchange(running_, process); }

private:
  static constexpr process_id unknown = no_process + 1;

  bool apart_ = false;
  process_id running_ = no_process;
  std::vector<process_id> owners_; ///< by id of the actor
  std::set<process_id> stopped_;
  std::map<process_id, std::vector<caf::resumable*>> held_;
  std::map<process_id, process_clock> clocks_;
};

/// Sets the running process for its scope.
class running_process {
public:
  running_process(processes& all, process_id process) : all_(all), before_(all.run(process)) {}
  running_process(const running_process&) = delete;
  running_process& operator=(const running_process&) = delete;
  ~running_process() { all_.run(before_); }

private:
  processes& all_;
  process_id before_;
};

/// The clock of the world. Actors read and set times by the clock of the process that runs.
class world_clock final : public caf::detail::test_actor_clock {
public:
  explicit world_clock(const processes& all) : processes_(all) {}

  time_point now() const noexcept override;
  void set_ordinary_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type,
                            std::uint64_t id) override;
  void set_multi_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type,
                         std::uint64_t id) override;
  void set_request_timeout(time_point t, caf::abstract_actor* self, caf::message_id id) override;
  void schedule_message(time_point t, caf::strong_actor_ptr receiver,
                        caf::mailbox_element_ptr content) override;
  void schedule_message(time_point t, caf::group target, caf::strong_actor_ptr sender,
                        caf::message content) override;

private:
  time_point in_world(time_point t) const;

  const processes& processes_;
};

} // namespace farandole::testing
