// The state of one operation in flight: the request, the buffers that it may touch, and its result. Framework
// threads, the event loop and a lane share it by reference count; its phase decides which of them may settle it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "actors/submission/fast_path_slot.hpp"
#include "actors/submission/phase_word.hpp"
#include "actors/submission/set_epochs.hpp"
#include "collectives/transport/shm/caller_collective.hpp"
#include "collectives/transport/shm/result_memory.hpp"
#include "messages/record/event_recorder.hpp"
#include "messages/values/device.hpp"
#include "messages/values/error.hpp"
#include "messages/values/result.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

class nvtx_call;
class submission_queue;

/// The request. Written before the operation is shared, constant afterwards, except by become_gather().
struct operation_request {
  std::string name;
  farandole::signature signature;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::size_t bytes = 0; ///< of the input
  /// alltoall: rows for each member, by rank. Not part of the signature: members need not agree on them, and one id
  /// serves steps with different splits.
  std::vector<std::int64_t> splits;
  std::uint32_t set = 0;
  std::uint32_t group = 0;
  std::uint32_t group_size = 0;
  tensor_memory memory;           ///< of input and output
  std::uint8_t device_number = 0; ///< which of the devices that this member uses in the set
  device_point_ptr ready;         ///< when a tensor in device memory is ready; null: it is
  bool absent = false;            ///< this member contributes nothing
  bool no_fast_path = false;      ///< keep it off the fast path, where no caller would wait for it
  /// Whether the output is memory of the runtime, or may become it (become_gather()). It is freed with the caller's
  /// last handle, while the operation itself may be kept longer.
  bool owns_output = false;

  std::shared_ptr<event_recorder> recorder; ///< null: nothing is recorded
  std::uint32_t recorded_name = 0;          ///< index of the name in the record
  /// Its range for a profiler; null until its call is marked, once it is settled, and if no profiler listens.
  std::shared_ptr<const nvtx_call> profiled;

  set_epoch epoch; ///< of its set
  /// The submission queue that accepted it; empty for operations that cannot be withdrawn.
  std::weak_ptr<farandole::submission_queue> queue;
};

struct operation_state : operation_request, phase_word {
  operation_state() = default;
  operation_state(const operation_state&) = delete;
  operation_state& operator=(const operation_state&) = delete;

  /// Resets everything but the fields that a repeated request has in common with this one (name, signature, set,
  /// epoch, home). Only for the sole owner.
  void renew();

  // How it reaches the leader; the submission queue writes these before it queues the operation.
  std::uint32_t id = 0;              ///< 0: it goes as a full request
  std::vector<fast_path_round> left; ///< fast-path rounds that its request gives up

  // Its place on the fast path; valid from phase on_fast_path until phase queued.
  std::shared_ptr<fast_path_slot> taken_slot;
  std::uint64_t round = 0;
  std::unique_ptr<caller_collective> collective; ///< set if the waiting callers run the collective

  /// What a device still has to do after it is settled. Written before that.
  device_work on_device;
  /// Why no one waits for the device any more: it failed, or took too long. Valid once `given_up`.
  error late_problem;
  std::atomic<bool> given_up{false};
  /// Whether nothing touches its buffers any more.
  bool released() const { return settled() && on_device.progress.ended(); }

  // How it ended; valid once settled.
  error problem;
  farandole::result outcome;
  result_memory::block owned;               ///< memory behind outcome.bytes, if the caller gave none
  std::atomic<bool> watch_requested{false}; ///< the event loop has been asked to watch it
  std::atomic<bool> handed_on{false};       ///< the event loop has asked a lane to continue the collective

  /// The problem, for the caller. If the epoch ended with it, records that the callers have seen that end.
  const error& reported() const {
    if (problem)
      epoch.reported();
    return problem;
  }

  /// Before the operation is shared: assigns it to this round of the slot. Returns false, and changes nothing, if
  /// there is no memory for it now.
  bool take_slot(std::shared_ptr<fast_path_slot> slot, std::uint64_t which);
  /// Reverts take_slot().
  void leave_slot();
  /// Publishes this member's cell.
  void show();

  /// Records an event of this operation, by the calling thread.
  void record(event_kind kind, std::uint8_t detail = 0, std::uint64_t first = 0,
              std::uint64_t second = 0) const {
    if (recorder)
      recorder->record(kind, recorded_name, set, detail, first, second);
  }
  /// `detail` of events that name the operation.
  std::uint8_t recorded_operation() const;

  /// Settles the operation: writes `reason`, wakes the waiters, runs the callback. The caller must have claimed the
  /// operation, or own it alone.
  void settle(error reason) { settle(std::move(reason), 0); }

  /// Claims the operation in phase `from` and settles it; false if another thread was faster.
  bool claim_and_settle(phase from, error reason);

  /// Whether try_settle() may only check, or also run a collective of callers.
  enum class runner : std::uint8_t {
    nobody,
    caller,
    end ///< the event loop, which ends the set: as `caller`, but it reports no failure to itself
  };
  /// Settles the operation if it is on the fast path and its round is complete; returns whether it is settled. With
  /// another runner, it also continues a collective that callers run, which keeps the thread busy for as long as its
  /// bytes take.
  bool try_settle(runner runner = runner::caller);
  /// Whether try_settle() could continue such a collective now.
  bool can_move() const;
  /// The generation ends: settles an operation on the fast path, with success if its round is complete, else with
  /// `reason`. All members reach the same result (shm_fast_path::give_up). Returns false while a thread moves its
  /// bytes; the caller then tries again.
  bool end_on_fast_path(const error& reason);
  /// Whether it still needs the lane or other members: it is queued, or on the fast path in an incomplete round.
  bool pending() const;
  /// The part of its round that it waits for; empty if it does not wait on the fast path.
  std::optional<round_need> awaited() const;

  /// The result of leave_fast_path().
  enum class leaving : std::uint8_t {
    left,  ///< it is queued, and this member no longer takes part in its round
    stays, ///< it is not on the fast path, or its round is complete and decides how it ends
    busy   ///< a thread moves its bytes: try again
  };
  /// Gives the round up and takes this member's cell back, unless the round is complete. After `left`, the caller
  /// must send the operation to the leader. Settles nothing, so no callback runs.
  leaving leave_fast_path();
  /// Allocates the output, to which each member sends the given number of rows.
  error own_output(result_memory& memory, std::vector<std::int64_t> rows);

  /// This member is absent from an allgather other than the operation that it has requested: makes it one of no rows.
  /// Only the event loop may call it, while it has claimed the operation.
  void become_gather(farandole::dtype dtype, std::int64_t row_elements);
  /// No member contributes: settles the operation without a result. Returns false if it is not queued any more.
  bool claim_and_settle_without_result();

  /// Counts the handles of an operation that owns its output: one more, and one less. It begins with one. drop_handle() returns
  /// whether that was the last.
  void hold() { handles_.fetch_add(1, std::memory_order_relaxed); }
  bool drop_handle();

private:
  std::atomic<std::uint32_t> references_{1};
  std::atomic<std::uint32_t> handles_{1};
  std::atomic<bool> dropped_{false};

  /// `recorded_round`: 1 more than its round if it is settled on the fast path, else 0.
  void settle(error reason, std::uint64_t recorded_round);
  void drop_memory();
  caller_tensor tensor() const;
  std::optional<round_outcome> outcome_of_round() const;
  error collect_cells();
  caller_collective::state advance_collective();
  bool settle_on_fast_path(runner runner);
  bool settle_shown();
  bool go_on(runner runner);
  /// This member alone has failed, so the others may wait for it: the event loop ends the process set, and with it this
  /// operation. For the thread that has made its phase `moving`.
  void break_round(std::string_view reason, runner runner);
  void stop_moving(phase next);
  /// Settles an operation on the fast path, which the caller has claimed.
  void end_round(error reason);
  void record_round() const;

  friend class operation_state_ptr;
};

/// A counted reference to an operation.
class operation_state_ptr {
public:
  operation_state_ptr() = default;
  static operation_state_ptr make() { return adopt(new operation_state); }
  /// Takes over one reference.
  static operation_state_ptr adopt(operation_state* raw) {
    operation_state_ptr result;
    result.raw_ = raw;
    return result;
  }
  static operation_state_ptr share(operation_state* raw) {
    if (raw)
      raw->references_.fetch_add(1, std::memory_order_relaxed);
    return adopt(raw);
  }
  operation_state_ptr(const operation_state_ptr& other) : operation_state_ptr(share(other.raw_)) {}
  operation_state_ptr(operation_state_ptr&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  operation_state_ptr& operator=(operation_state_ptr other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~operation_state_ptr() { drop(raw_); }

  /// Returns the pointer and keeps its reference count; the caller owns that reference.
  operation_state* release() { return std::exchange(raw_, nullptr); }
  operation_state* get() const { return raw_; }
  operation_state* operator->() const { return raw_; }
  operation_state& operator*() const { return *raw_; }
  explicit operator bool() const { return raw_ != nullptr; }

  /// Whether this is the only reference. No other thread can gain one: references are copied only from references.
  bool alone() const { return raw_ && raw_->references_.load(std::memory_order_acquire) == 1; }

private:
  static void drop(operation_state* raw) {
    if (raw && raw->references_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      delete raw;
  }
  operation_state* raw_ = nullptr;
};

/// The messages from framework threads to the event loop, through the submission queue: an operation that goes
/// through the leader, or one of the following.
struct set_change_request {
  operation_state_ptr operation; ///< settled when the change has been made
  set_change change;
};
/// Withdraws an operation that has not been scheduled.
struct withdrawal_request {
  std::string name;
};
/// Makes the event loop watch an operation on the fast path.
struct watch_request {
  operation_state_ptr operation;
  bool slow; ///< a caller waits for it already, and has waited for long
};
/// An operation on the fast path has failed on this member alone.
struct round_broken {
  error reason;
};
using submission_message =
    std::variant<operation_state_ptr, set_change_request, withdrawal_request, watch_request, round_broken>;

} // namespace farandole
