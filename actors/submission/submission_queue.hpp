// The submission queue: framework threads submit operations here, for the event loop or directly to the fast path.
// The event loop takes the queued operations and announces the ids that the leader assigned.
//
// Framework threads share `mutex_` for the table. The event loop never waits for it: it posts news (ids learnt and
// forgotten) on a lock-free stack that the next submitter reads, and takes the queue with one exchange. Where it must
// access the table itself (retract, end), it only tries the lock, and retries later. `ring_mutex_` guards the function
// that rings the event loop: no thread waits while it holds this mutex.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/submission/fast_path_slot.hpp"
#include "actors/submission/mailbox.hpp"
#include "actors/submission/operation_state.hpp"
#include "actors/submission/request_check.hpp"
#include "actors/submission/set_epochs.hpp"
#include "actors/submission/tensor_table.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

class nvtx_ranges;

/// A wait on the fast path that is longer than this is reported to the event loop.
inline constexpr std::chrono::seconds slow_wait{1};

/// The submission queue of one process set on one member.
class submission_queue : public std::enable_shared_from_this<submission_queue> {
public:
  /// `ring` tells the event loop that the queue is no longer empty; called from framework threads.
  /// `capacity`: maximum number of operations in flight.
  /// `ranks`, `epoch`: the global ranks of a process set's members, and its epoch; none for the global set.
  /// `fast_path_limit_bytes`: largest tensor that a cell of the fast path holds whole.
  /// `recorder`: records the operations; may be null. `ranges`: marks them for a profiler; may be null.
  submission_queue(std::uint32_t set, std::int32_t size, std::size_t capacity, std::function<void()> ring,
                   std::vector<std::int32_t> ranks = {}, set_epoch epoch = {},
                   std::size_t fast_path_limit_bytes = std::size_t{64} << 10,
                   std::shared_ptr<event_recorder> recorder = nullptr,
                   std::shared_ptr<const nvtx_ranges> ranges = nullptr);

  // ---- framework threads ----

  /// Ignores `request.set`: the caller has chosen the submission queue by it.
  expected<operation_state_ptr> submit(const submission& request);
  /// Submits all or none; the tensors become ready together.
  expected<std::vector<operation_state_ptr>> submit_group(std::span<const submission> requests);
  /// Requests a change of the process sets, together with all other members; one at a time. Global set only.
  expected<operation_state_ptr> submit(const set_change& change);
  /// Withdraws an operation if it has not been scheduled, and is not complete on the fast path.
  void withdraw(operation_state& operation);
  /// No caller may come to wait for this operation, yet its end must be reported: if it is on the fast path, the
  /// event loop watches it.
  void settle_from_loop(operation_state& operation);
  /// Its caller has waited on the fast path for `slow_wait`: the event loop may have to report the missing members.
  void report_slow(operation_state& operation);
  /// An operation on the fast path has failed on this member alone: the event loop ends the set for this reason. False
  /// after close(). Throws if there is no memory for the report: call it again. Does not take `mutex_`, whose
  /// holder may wait for the thread that moves the operation's bytes.
  bool report_broken(error reason);
  /// The number of operations of this name that have failed on all members, because these disagreed. While none of this
  /// name is in flight here, the number is the same on all members.
  std::uint64_t failures(std::string_view name);
  /// Whether later submissions fail. Waits for the lock.
  bool has_ended();
  /// The runtime ends: later submissions fail, and the event loop is not rung again. Waits for the lock.
  void close();

  // ---- the loop ----

  /// Everything queued since the last call, oldest first.
  std::vector<submission_message> take_queue();
  /// The leader has assigned an id to `own`: later submissions of the same name, signature and group use the id, and
  /// the fast path if `slot` is given.
  void learn(std::uint32_t id, const operation_state& own, std::shared_ptr<fast_path_slot> slot);
  void forget(std::uint32_t id);
  /// The leader has failed the operation of this name on all members. To be called before it is settled here.
  void count_failure(std::string name);

  /// The result of an attempt that must not block.
  enum class attempt { done, busy };
  /// Adds the names of operations that no lane has started, and of incomplete ones on the fast path.
  attempt pending_names(std::vector<std::string>& names);
  /// Forgets the id. An operation that waits on the fast path in exactly this round is taken back into `taken`.
  attempt retract(fast_path_round round, operation_state_ptr& taken);
  /// Later submissions fail with `reason`. Operations on the fast path are settled: with success if their round is
  /// complete, else with `reason`.
  attempt end(const error& reason);
  /// As end(), when the set client is gone: also fails the operations that it held, or would have received.
  attempt fail(const error& reason);

  // ---- any thread ----

  std::uint64_t submitted() const { return submitted_.load(std::memory_order_relaxed); }
  std::uint64_t on_fast_path() const { return on_fast_path_.load(std::memory_order_relaxed); }
  /// Number of join operations that were submitted.
  std::uint64_t joins() const { return joins_.load(std::memory_order_relaxed); }

private:
  error check(const submission& request);
  static bool settle_unlocked(std::unique_lock<std::mutex>& guard, operation_state_ptr operation);
  error refuse_after_end(const submission& request);
  struct arrival {
    known_tensor& entry;
    operation_state_ptr operation;
  };
  arrival admit(known_tensor& entry, const submission& request, std::uint32_t group,
                std::uint32_t group_size);
  void enter(std::span<const arrival> together);
  void settle_at_once(std::span<const arrival> together);
  void begin_range(std::span<const arrival> together) const;
  operation_state_ptr blank(known_tensor& entry, const submission& request);
  bool refuses_fast_path(const known_tensor& entry, const operation_state& operation,
                         completion_mode completion) const;
  std::uint8_t number_of_device(const tensor_memory& memory);
  bool publish_together(std::span<const arrival> together);
  void give_up_next_round(known_tensor& entry, operation_state& operation);
  void leave_all_slots(operation_state& join);
  void request_instead(operation_state& operation);
  void enqueue_watch(operation_state& operation, bool slow);
  void enqueue(submission_message message);
  void read_news();

  static constexpr std::size_t most_devices = 255;

  const std::uint32_t set_;
  const std::int32_t size_;
  const std::size_t capacity_;
  const std::vector<std::int32_t> ranks_;
  const set_epoch epoch_;
  const std::size_t fast_path_limit_bytes_;
  const std::shared_ptr<event_recorder> recorder_;
  const std::shared_ptr<const nvtx_ranges> ranges_;

  std::mutex ring_mutex_;      ///< is taken last: after `mutex_`, or alone
  std::function<void()> ring_; ///< null after close()

  std::mutex mutex_; ///< guards what follows, except the mailboxes and counters
  tensor_table table_;
  std::map<std::string, std::uint64_t, std::less<>> failures_; ///< by name
  std::vector<std::int32_t> devices_; ///< that this member has used in the set, in that order
  error ended_;
  bool refusal_recorded_ = false;

  mailbox<submission_message> queue_; ///< to the event loop
  mailbox<assigned_id> news_;         ///< from the event loop
  mailbox<std::string> failed_names_; ///< likewise
  std::atomic<std::uint64_t> submitted_{0};
  std::atomic<std::uint64_t> on_fast_path_{0};
  std::atomic<std::uint64_t> joins_{0};
};

} // namespace farandole
