// Where framework threads enter: submit, and the fast path. The loop's side takes what was queued and tells what
// ids mean.
//
// Framework threads share one mutex here. The loop never waits for it: it posts news (ids learnt and
// forgotten) on a lock-free stack that the next submitter reads, takes the queue with one exchange, and where
// it must touch the table itself (retract, end) it only tries the lock and comes back later.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/submission/fast_path_slot.hpp"
#include "actors/submission/mailbox.hpp"
#include "actors/submission/operation_state.hpp"
#include "actors/submission/request_check.hpp"
#include "actors/submission/set_epochs.hpp"
#include "actors/submission/tensor_table.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

/// A wait on the fast path that is longer than this is told to the loop.
inline constexpr std::chrono::seconds slow_wait{1};

/// One process set's door.
class submission_queue : public std::enable_shared_from_this<submission_queue> {
public:
  /// `ring` tells the loop that the queue is no longer empty; called from framework threads.
  /// At most `capacity` operations may be in flight.
  /// `ranks`, `epoch`: a process set's members, by global rank, and its epoch; none for the global set.
  /// `board_limit_bytes`: of tensors that a cell of the fast path holds whole.
  submission_queue(std::uint32_t set, std::int32_t size, std::size_t capacity, std::function<void()> ring,
                   std::vector<std::int32_t> ranks = {}, set_epoch epoch = {},
                   std::size_t fast_path_limit_bytes = std::size_t{64} << 10);

  // ---- framework threads ----

  /// `what.set` is not looked at: the caller has chosen the submission queue by it.
  expected<operation_state_ptr> submit(const submission& request);
  /// All or none; they become ready together.
  expected<std::vector<operation_state_ptr>> submit_group(std::span<const submission> requests);
  /// Asks, with all other members, for a change of the process sets; one at a time. The global set's door.
  expected<operation_state_ptr> submit(const set_change& change);
  /// Takes an operation back if it has not been scheduled.
  void withdraw(operation_state& operation);
  /// Nobody may come to wait for this operation, yet its end must be told: on the fast path, the loop looks after
  /// it.
  void look_after(operation_state& operation);
  /// Its caller has waited on the fast path for `slow_wait`: the loop may have to tell for whom.
  void takes_long(operation_state& operation);
  /// The runtime is going: nothing enters any more, and the loop is not rung again. Waits for the lock.
  void close();

  // ---- the loop ----

  /// Everything queued since the last call, oldest first.
  std::vector<submission_message> take_queue();
  /// What `own` asked for is known as an id from now on: the same name, signature and group may go by it; on
  /// the fast path if `where` is given.
  void learn(std::uint32_t id, const operation_state& own, std::shared_ptr<fast_path_slot> slot);
  void forget(std::uint32_t id);

  /// What became of a try that must not wait.
  enum class attempt { done, busy };
  /// Adds the names of operations that no lane has started, and of those on the fast path.
  attempt pending_names(std::vector<std::string>& names);
  /// Forgets the id; an operation that waits on the fast path in just this round is taken back into `taken`.
  attempt retract(fast_path_round round, operation_state_ptr& taken);
  /// No operation enters any more: submit answers `why`. What sits on the fast path is settled: well if its round
  /// is complete, else with `why`.
  attempt end(const error& reason);
  /// As end(), when the worker is gone: what it had been given, or was to be given, fails with `why` too.
  attempt fail(const error& reason);

  // ---- anybody ----

  std::uint64_t submitted() const { return submitted_.load(std::memory_order_relaxed); }
  std::uint64_t on_fast_path() const { return on_fast_path_.load(std::memory_order_relaxed); }
  /// How many join operations have entered.
  std::uint64_t joins() const { return joins_.load(std::memory_order_relaxed); }

private:
  error check(const submission& request) const;
  struct arrival {
    known_tensor& entry;
    operation_state_ptr operation;
  };
  arrival admit(known_tensor& entry, const submission& request, std::uint32_t group,
                std::uint32_t group_size);
  void enter(std::span<const arrival> together);
  operation_state_ptr blank(known_tensor& entry, const submission& request);
  bool wants_no_seat(const known_tensor& entry, const operation_state& operation, completion_mode told) const;
  bool sit_down(std::span<const arrival> together);
  void stand_up(known_tensor& entry, operation_state& operation);
  void leave_all_seats(operation_state& join);
  void tell_of(operation_state& operation, bool slow);
  void enqueue(submission_message message);
  void read_news();

  const std::uint32_t set_;
  const std::int32_t size_;
  const std::size_t capacity_;
  const std::vector<std::int32_t> ranks_;
  const set_epoch epoch_;
  const std::size_t fast_path_limit_bytes_;
  std::function<void()> ring_; ///< under the mutex

  std::mutex mutex_;
  tensor_table table_;
  error ended_;

  mailbox<submission_message> queue_; ///< to the loop
  mailbox<assigned_id> news_;         ///< from the loop
  std::atomic<std::uint64_t> submitted_{0};
  std::atomic<std::uint64_t> on_fast_path_{0};
  std::atomic<std::uint64_t> joins_{0};
};

} // namespace farandole
