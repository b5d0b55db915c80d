// One process's membership in a job, as the C interface, the Python module and the tests use it. Programs use
// bindings/include/farandole instead.
//
// A `runtime` owns two kinds of threads, its event loop and its lanes; it has no globals, so several runtimes (of
// several jobs) may live in one process. Callers own their buffers and their threads: the buffers of a submission
// belong to the operation until its handle has settled, and every function may be called from any thread. Nothing
// throws; expected failures are values of type `error`, whose kind says what to do.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/submission/submission.hpp"
#include "elastic/initial_sets.hpp"
#include "messages/values/dtype.hpp"
#include "messages/values/error.hpp"
#include "messages/values/result.hpp"
#include "messages/values/signature.hpp"
#include "messages/wire/departure.hpp"
#include "messages/wire/kept_set.hpp"

namespace farandole {

class settings;
struct member_start;
class member_runtime;
class join_retry;

struct options {
  /// Settings by environment variable name ("HOROVOD_RANK"); they beat the environment.
  std::map<std::string, std::string> settings;
  /// Whether the process' environment is read too.
  bool read_environment = true;
  /// The job's secret; empty: taken from FARANDOLE_SECRET_FD, FARANDOLE_SECRET_FILE or FARANDOLE_SECRET.
  std::string secret;
  /// Process sets that exist from the first operation on, each by its global ranks in any order; they get ids
  /// from 1 up. All members must name the same ones, or none of them starts. A set that is named twice, or
  /// holds every rank, exists once.
  std::vector<std::vector<std::int32_t>> process_sets = {};
  /// The processes of MPI's world that are the job, in the order of its ranks: every one of them names the
  /// same. Empty: all that mpirun started, if it started this one and no rendezvous is named.
  std::vector<std::int32_t> mpi_ranks = {};
  /// Elastic jobs: where this process' training state stands, as any number that changes with it. Members of
  /// different numbers must sync.
  std::uint64_t progress = 0;
  /// Process sets by rule; all members must give the same rules. Each rule is evaluated for every member, so a new
  /// member becomes a member of these sets automatically. They get the ids after those of process_sets, and stay
  /// sets of their own even if another set has the same ranks. A set whose rule selects no member does not exist in
  /// this generation.
  std::vector<set_rule> set_rules = {};
  /// Elastic jobs: the sets that this process had in the generation before (runtime::kept_sets()). They exist
  /// again under their ids, with the members that are left, if all survivors say the same; process_sets then
  /// counts no more.
  std::optional<std::vector<kept_set>> sets_before = {};
  /// Elastic jobs: the generation in which this process last received the training state of the others, or trained
  /// from its own; 0: it has no state. After a loss of members, a generation is not formed unless one of its
  /// members has the newest state.
  std::uint64_t state_generation = 0;
  /// Elastic jobs: the epoch() of this process' last runtime. This process then ignores a rendezvous that a newer
  /// one has replaced.
  std::uint64_t epoch = 0;
};

struct operation_state; // actors/submission/operation_state.hpp
class process_guard;    // actors/submission/process_guard.hpp

/// The error of calls in a forked child, where the runtime of the parent must not be touched.
error forked_error();

/// One operation in flight. Copies share it. Dropping every copy is allowed: the operation goes on and its
/// buffers must stay valid until it is settled (on_settled tells when). In a forked child, it has ended with
/// forked_error().
class handle {
public:
  handle();
  /// Takes over one reference. `mark`: of the process whose operation it is.
  handle(operation_state* adopted, std::shared_ptr<const process_guard> mark) noexcept;
  handle(const handle&) noexcept;
  handle(handle&&) noexcept;
  handle& operator=(handle) noexcept;
  ~handle();

  explicit operator bool() const { return pending_ != nullptr; }

  /// Whether the operation has ended, well or not. Never blocks.
  bool settled() const;

  /// Waits until settled and released, until `deadline` has passed (then `timed_out`; the operation goes on), or until
  /// `interrupted()` returns true (called whenever a signal arrives, and at least every 100 ms; then `aborted`; the
  /// operation goes on). Kind `none` if the operation ended well.
  error wait(std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max(),
             const std::function<bool()>& interrupted = {}) const;

  /// Whether the operation has ended and nothing touches its buffers any more. Never blocks.
  bool released() const;

  /// No caller may come to wait: the runtime completes the operation by itself, as when a handle is dropped. A caller
  /// may still wait, also by another handle.
  void leave() const;

  /// Whether wait_on_stream() has nothing to do. Never blocks.
  bool ready_for_streams() const;

  /// As wait(). But for a tensor in the memory of a device, the work that `stream` of the device is given from now on
  /// waits for the device, and this thread only until the operation is settled.
  error wait_on_stream(
      void* stream,
      std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max(),
      const std::function<bool()>& interrupted = {}) const;

  /// Whether it has ended with an error.
  bool failed() const;

  /// Why the operation ended; kind `none` while it has not, or when it ended well.
  error problem() const;

  /// Valid once settled without error, as long as a copy of this handle lives.
  const farandole::result& result() const;

  /// Calls `callback` once, when settled: at once if it already is, otherwise from a runtime thread, which it
  /// must not block. At most one callback.
  void on_settled(std::function<void()> callback);

  /// Takes the operation back unless it has been scheduled; it then ends `aborted` on all ranks.
  void cancel();

private:
  bool usable_here() const;
  error wait_until_settled(std::chrono::steady_clock::time_point deadline,
                           const std::function<bool()>& interrupted) const;

  operation_state* pending_ = nullptr;
  std::shared_ptr<const process_guard> mark_;
};

/// One process's membership in a job: the whole interface, so it has more than 30 methods.
class runtime {
public:
  /// Joins the job that the settings name and returns when this member's connections are up; a job of one
  /// when they name none. Blocks at most the start timeout, in an elastic job the elastic timeout: there,
  /// when another member is lost before all are connected, this one waits for the generation after.
  /// `dismissed`: the job goes on without this process.
  static expected<std::unique_ptr<runtime>> start(const options& options = {});

  /// shutdown().
  ~runtime();
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;

  /// Leaves in order: bundles that are already scheduled still run, and pending operations fail with `shut_down`.
  /// Ends the generation for the other members too; the errors of their pending operations describe the `manner` in
  /// which this one left. Idempotent; blocks at most the shutdown timeout. Returns at once while another thread is
  /// in it. As always, buffers belong to their operations until those are settled.
  void shutdown(departure manner = {});

  /// False once the generation has ended, for any reason.
  bool alive() const;
  /// False in a forked child, where every call fails with a clear error and nothing of the parent's is
  /// touched.
  bool usable_here() const;

  std::int32_t rank() const;
  std::int32_t size() const;
  std::int32_t local_rank() const;
  std::int32_t local_size() const;
  std::int32_t cross_rank() const;
  std::int32_t cross_size() const;

  /// Counts memberships of the job, from 1; a runtime lives in one.
  std::uint64_t generation() const;
  /// For tags of objects that this job's data path does not authenticate: 32 bytes that all members derive
  /// from the job's secret. Empty where objects need no tags.
  std::string object_key() const;
  /// The highest epoch of a rendezvous that this process has obeyed.
  std::uint64_t epoch() const;
  /// Elastic jobs: members do not all stand at the same step with the same state; the same on all of them.
  bool must_sync() const;
  /// Elastic jobs: the job has run without this process.
  bool joined_late() const;
  /// Elastic jobs: how many changes of the members wait for all to leave this generation, and whether all of
  /// them are removals. Members may hear of a change at different times. Never blocks.
  std::pair<std::uint64_t, bool> membership_change() const;
  /// Elastic jobs: this process is to leave by plan, as if its host were taken out: a removal is announced to
  /// all members. Returns once this one has heard of it, or a moment later, if the rendezvous is away.
  void withdraw();
  /// Elastic jobs: until enter_loop(), callers are outside of the elastic loop. The operations and changes of process
  /// sets of a process that has joined `late` fail as `precondition`: the other members are inside their loops and do
  /// not run them. Those of other processes are accepted; at the first one, rank 0 logs a warning. To be called once.
  void await_loop(bool late);
  void enter_loop();

  /// Writes Horovod's timeline to this file from now on; on rank 0 only, so that all ranks may make the same call. The
  /// file that was written before is completed first, unless it has the same path: then nothing changes. Problems with
  /// the file are logged. `mark_cycles`: whether the file shows when bundles start. `invalid_argument` if
  /// HOROVOD_TIMELINE was not set when the runtime started.
  error start_timeline(const std::string& path, bool mark_cycles = false);
  /// Completes the file: it has all operations that ended before the call.
  error stop_timeline();

  /// Records that a training step of the program ends here, for `farandole report`; every rank marks the same steps.
  error mark_step();

  /// Waits until devices have done all work of operations that are settled. The error with which one of them did not,
  /// at any time of this runtime: data that depend on operations so far may be wrong. `interrupted`: as for
  /// handle::wait().
  error wait_for_devices(const std::function<bool()>& interrupted = {}) const;

  /// Waits for the next report of tensors that some ranks have submitted and others have not, which all members
  /// receive. Returns its text, and whether it says that the stall is over. `timed_out` if the deadline passes;
  /// `shut_down` after shutdown(). Reports from before the first call are not kept.
  expected<std::pair<std::string, bool>>
  next_stall(std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max());

  /// Whether MPI can connect the members, because mpirun or srun started them, or moves their tensors; and whether any
  /// thread may then call it.
  bool has_mpi() const;
  bool mpi_threads() const;
  /// Whether this installation can do so.
  static bool mpi_is_installed();
  /// Same local size on every host.
  bool is_homogeneous() const;

  /// Hands one tensor in. `invalid_argument` for a name in flight, an unknown set or one without this member,
  /// a root outside the set, splits that do not fit the first extent, a scalar to reduce-scatter; `aborted`
  /// for Adasum with reducescatter; `overloaded` when too much is in flight; `disconnected` when the process set was
  /// restarted and no caller here had been told. Once the generation has ended, the error with which it ended.
  expected<handle> submit(const submission& request);
  /// All or none, and all in one process set; the members become ready together.
  expected<std::vector<handle>> submit_group(std::span<const submission> requests);

  /// The number of operations of this name in the set that have failed on all members, because these disagreed. While
  /// none of this name is in flight here, the number is the same on all members. 0 for an unknown set.
  std::uint64_t failures(std::uint32_t set, std::string_view name) const;

  // Changes of the process sets are collective: every member of the job makes the same call, whether it is in
  // the set or not, and all calls return when the change has come about on their member. Where members
  // differ, all get `invalid_argument`, nothing changes and the job goes on. They need
  // HOROVOD_DYNAMIC_PROCESS_SETS.

  /// Adds the set of these global ranks, in any order; gives its id. `invalid_argument` for an equal set, a
  /// rank that is none or comes twice.
  expected<std::uint32_t> add_process_set(std::vector<std::int32_t> ranks);
  /// Operations of the set that are pending and not scheduled fail with `aborted`; all others go on. The id may be
  /// given to a later set. `invalid_argument` for an unknown set and for 0.
  error remove_process_set(std::uint32_t set);
  /// The number of restarts of the set that this member's callers have been told of, by the `disconnected` of an
  /// operation or a submission. Counters that must agree on all ranks start again at each restart.
  std::uint64_t process_set_epoch(std::uint32_t set) const;
  /// The number of join operations that this process has submitted. Each ends only when every member has joined.
  /// Counters that must agree on all ranks start again there too, because a member that joined early has done less.
  std::uint64_t joins() const;
  /// The callers here have learnt, by other means than an error, that the set has restarted `epoch` times. Waits
  /// until it has done so on this member too, at most for the start timeout; `invalid_argument` if it does not.
  error acknowledge_restart(std::uint32_t set, std::uint64_t epoch);
  /// How many operations this process has submitted to each set that it is in, since the set last started.
  std::map<std::uint32_t, std::uint64_t> submitted() const;
  /// What options::sets_before takes: every set that this process knows to exist besides the global one, also
  /// those by rule that have no members now. Their members are slots. By id.
  std::vector<kept_set> kept_sets() const;
  /// Where the launcher put each rank; unlike ranks, slots stay.
  std::vector<std::int32_t> slots() const;
  /// Ids and global ranks, the global set's included.
  std::map<std::uint32_t, std::vector<std::int32_t>> process_sets() const;

  /// Counters for people and benchmarks.
  struct counters {
    std::uint64_t submitted = 0;
    std::uint64_t on_fast_path = 0; ///< settled on the fast path
    std::uint64_t bundles = 0;      ///< runs of a path
    std::uint64_t loop_wakeups = 0; ///< times the event loop slept and woke
    std::uint64_t bytes_moved = 0;  ///< input bytes of finished bundles
    std::uint64_t by_nccl = 0;      ///< bundles that NCCL moved
  };
  counters count() const;

private:
  explicit runtime(std::unique_ptr<member_runtime> started);
  /// Into one generation.
  static expected<std::unique_ptr<runtime>> start_once(const settings& values, const member_start& wanted,
                                                       const std::vector<std::vector<std::int32_t>>& lists,
                                                       const std::vector<set_rule>& rules,
                                                       const join_retry& tries);
  std::unique_ptr<member_runtime> member_;
};

} // namespace farandole
