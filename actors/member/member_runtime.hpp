// The runtime of one member. It constructs and destroys the actor system, the member's actors, the lane and the
// logger, in an order in which no component outlives those that it uses. It is the implementation behind the C++
// interface (bindings/cxx/runtime.hpp). It uses no globals, so several runtimes may live in one process.
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
#include "actors/member/mpi_start.hpp"
#include "actors/member/pmi_start.hpp"
#include "actors/member/process_trace.hpp"
#include "actors/member/stall_report_queue.hpp"
#include "actors/process_set/shared_state.hpp"
#include "actors/submission/process_guard.hpp"
#include "actors/timeline/timeline.hpp"
#include "elastic/join_deadline.hpp"
#include "elastic/known_sets.hpp"
#include "messages/settings/settings.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// The arguments of a start that are not settings.
struct member_start {
  std::string secret;
  mpi_facts mpi;
  injected_faults faults;
  std::uint64_t progress = 0;                            ///< progress of the training state
  std::optional<std::vector<kept_set>> sets_before = {}; ///< sets of the last generation, by id; slots
  std::uint64_t state_generation = 0;                    ///< see options::state_generation
  /// The highest epoch of a rendezvous that this process has obeyed, in this runtime and in earlier ones. Updated
  /// even if the start fails.
  std::shared_ptr<std::atomic<std::uint64_t>> epoch = std::make_shared<std::atomic<std::uint64_t>>(0);
  /// The deadline of the start.
  std::shared_ptr<join_deadline> deadline = std::make_shared<join_deadline>();
};

class member_runtime {
public:
  /// Joins the job that the settings or MPI name, for one generation. Returns `disconnected` if, in an elastic job,
  /// another member was lost before all members were connected.
  static expected<std::unique_ptr<member_runtime>> start(settings values, member_start manner);
  ~member_runtime();
  member_runtime(const member_runtime&) = delete;
  member_runtime& operator=(const member_runtime&) = delete;

  /// Leaves the job in order, within the shutdown timeout. The other members learn `manner`. Idempotent. May be
  /// called from any thread.
  void shutdown(departure manner = {});

  /// False in a forked child of the process that made this object. The runtime's threads do not exist there, so the
  /// child must neither use nor destroy this object.
  bool is_local() const { return mark_->is_local(); }
  /// Tells handles, which may outlive this object, whether is_local().
  const std::shared_ptr<const process_guard>& mark() const { return mark_; }
  /// False at the latest when an operation has failed because the generation has ended. May be called from any thread.
  bool alive() const { return shared_state_->alive && !shared_state_->global->queue->has_ended(); }
  /// Elastic jobs: the number of membership changes that wait for the end of this generation, and whether all of them
  /// are removals. May be called from any thread.
  std::pair<std::uint64_t, bool> membership_change() const { return shared_state_->changes.waiting(); }
  /// Elastic jobs: tells the rendezvous that this process leaves by plan, and waits, within a bound, until the
  /// rendezvous has announced it as a membership change. If the rendezvous does not answer, nothing changes.
  void withdraw();
  const member& self() const { return shared_state_->members[static_cast<std::size_t>(shared_state_->rank)]; }
  const farandole::shared_member_state& shared_state() const { return *shared_state_; }
  /// The highest epoch of a rendezvous that this process has obeyed.
  std::uint64_t epoch() const { return *epoch_; }
  /// Null if the job does not use MPI.
  const mpi_start* mpi() const { return mpi_.get(); }
  /// Null unless mpirun or srun started the job, and it does not use MPI.
  const pmi_start* pmi() const { return pmi_.get(); }
  /// The submission queue of the global set.
  farandole::submission_queue& queue() { return *shared_state_->global->queue; }
  /// The submission queue of a process set. Returns `invalid_argument` if there is no such set, or if this process is
  /// not a member of it.
  expected<std::shared_ptr<farandole::submission_queue>> queue(std::uint32_t set) const;
  /// The process sets as far as the callers in this process know them.
  farandole::known_sets& known_sets() { return known_sets_; }
  /// See set_table.
  bool acknowledge_restart(std::uint32_t set, std::uint64_t epoch) {
    return shared_state_->sets.acknowledge(set, epoch);
  }
  /// Joins the lanes of process sets that have ended.
  void reap() { shared_state_->sets.reap(); }
  /// The event record of this process; never null.
  const std::shared_ptr<event_recorder>& recorder() const { return shared_state_->recorder; }
  /// Horovod's timeline, which rank 0 writes; on other ranks nothing happens. Returns `invalid_argument` if the setting
  /// was not given. May be called from any thread.
  error start_timeline(const std::string& path, bool mark_cycles);
  void stop_timeline();
  /// Records that a training step of the program ends here. May be called from any thread.
  void mark_step();
  /// See runtime::await_loop().
  void await_loop(bool late);
  void enter_loop() { outside_loop_ = false; }
  /// The error of an operation that is called now; none if it is accepted. May be called from any thread.
  error check_loop();
  /// The reports of stalls. The queue is closed when this member leaves.
  stall_report_queue& stalls() { return *stalls_; }
  std::uint64_t loop_wakeups() { return system_->loop().wakeups(); }

private:
  explicit member_runtime(settings values);
  void open_recorder();
  void open_timeline();
  error join(const member_start& start);
  error did_not_come_together() const;

  std::shared_ptr<const process_guard> mark_ = std::make_shared<process_guard>();
  settings values_;
  logger log_;
  std::shared_ptr<farandole::shared_member_state> shared_state_;
  std::unique_ptr<process_trace> trace_; ///< ends after the actors; null without the setting
  std::shared_ptr<std::atomic<std::uint64_t>> epoch_;
  std::shared_ptr<stall_report_queue> stalls_ = std::make_shared<stall_report_queue>();
  // One of these may run the rendezvous, so they are destroyed after the member.
  std::unique_ptr<pmi_start> pmi_;
  std::unique_ptr<mpi_start> mpi_;
  std::unique_ptr<loop_system> system_;
  caf::actor member_;
  farandole::known_sets known_sets_;
  std::unique_ptr<timeline> timeline_;  ///< null on other ranks than 0, and without the setting
  std::atomic<std::uint64_t> steps_{0}; ///< that the program has marked
  bool late_ = false;                   ///< written before outside_loop_, then constant
  std::atomic<bool> outside_loop_{false};
  std::atomic<bool> left_{false}; ///< only one thread leaves and takes the future of shared_state_->ended
};

} // namespace farandole
