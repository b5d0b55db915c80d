// Builds one member and takes it down: actor system, member tree, lane, logger, in an order in which nothing
// outlives what it needs. It is what the C++ interface (bindings/include/farandole/farandole.hpp) stands for. No globals;
// several may live in one process.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/event_loop/log.hpp"
#include "actors/event_loop/loop.hpp"
#include "actors/event_loop/process_guard.hpp"
#include "actors/member/mpi_start.hpp"
#include "actors/process_set/shared_state.hpp"
#include "elastic/join_deadline.hpp"
#include "elastic/known_sets.hpp"
#include "messages/settings/settings.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Beside the settings.
struct member_start {
  std::string secret;
  mpi_facts mpi;
  injected_faults faults;
  std::uint64_t progress = 0;                            ///< where the training state stands
  std::optional<std::vector<kept_set>> sets_before = {}; ///< of the generation before, by id; slots
  std::uint64_t state_generation = 0;                    ///< see options::state_generation
  /// The highest that this process has obeyed, in runtimes before this one and in this one; also where the
  /// start fails.
  std::shared_ptr<std::atomic<std::uint64_t>> epoch = std::make_shared<std::atomic<std::uint64_t>>(0);
  /// When the start gives up.
  std::shared_ptr<join_deadline> deadline = std::make_shared<join_deadline>();
};

class member_runtime {
public:
  /// Joins the job that the settings name, or MPI, in one generation. `disconnected`: an elastic job, and
  /// another member was lost before all were connected.
  static expected<std::unique_ptr<member_runtime>> start(settings values, member_start manner);
  ~member_runtime();
  member_runtime(const member_runtime&) = delete;
  member_runtime& operator=(const member_runtime&) = delete;

  /// Leaves in order, within the shutdown timeout, and tells the others how. Idempotent. Any thread.
  void shutdown(departure manner = {});

  /// False in a forked child of the process in which this was made: its threads are not there, so this object
  /// must neither be used nor destroyed.
  bool is_local() const { return mark_.is_local(); }
  bool alive() const { return shared_state_->alive; }
  /// Elastic jobs: how many changes of the members wait for the end of this generation, and whether nobody
  /// waits to come in. Any thread.
  std::pair<std::uint64_t, bool> membership_change() const { return shared_state_->changes.waiting(); }
  /// Elastic jobs: tells the rendezvous that this process leaves by plan, and waits until that is a change as
  /// others are. It is none where the rendezvous does not answer: then nothing changes.
  void withdraw();
  const member& self() const { return shared_state_->members[static_cast<std::size_t>(shared_state_->rank)]; }
  const farandole::shared_member_state& shared_state() const { return *shared_state_; }
  /// The highest of a rendezvous that this process has obeyed.
  std::uint64_t epoch() const { return *epoch_; }
  /// Null where the job has no MPI.
  const mpi_start* mpi() const { return mpi_.get(); }
  /// Of the global set.
  farandole::submission_queue& queue() { return *shared_state_->global->queue; }
  /// Of any; `invalid_argument` where there is no such set, or this process is not in it.
  expected<std::shared_ptr<farandole::submission_queue>> queue(std::uint32_t set) const;
  /// What the callers of this process know of the process sets.
  farandole::known_sets& known_sets() { return known_sets_; }
  /// See set_table.
  bool acknowledge_restart(std::uint32_t set, std::uint64_t epoch) {
    return shared_state_->sets.acknowledge(set, epoch);
  }
  /// Joins the lanes of process sets that have ended.
  void reap() { shared_state_->sets.reap(); }
  std::uint64_t loop_wakeups() { return system_->loop().wakeups(); }

private:
  explicit member_runtime(settings values);
  error join(const member_start& start);
  error did_not_come_together() const;

  process_guard mark_;
  settings values_;
  logger log_;
  std::shared_ptr<farandole::shared_member_state> shared_state_;
  std::shared_ptr<std::atomic<std::uint64_t>> epoch_;
  std::unique_ptr<mpi_start> mpi_; ///< may serve the rendezvous: goes after the member
  std::unique_ptr<loop_system> system_;
  caf::actor member_;
  farandole::known_sets known_sets_;
  std::atomic<bool> left_{false}; ///< one thread alone leaves, and takes the future of standing::ended
};

} // namespace farandole
