// One operation in flight: what was asked, whose buffers it may touch, and how its caller learns the end.
// Framework threads, the loop and a lane share it by reference count; its phase says who may settle it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/submission/fast_path_slot.hpp"
#include "actors/submission/phase_word.hpp"
#include "actors/submission/set_epochs.hpp"
#include "collectives/transport/shm/caller_collective.hpp"
#include "collectives/transport/shm/result_memory.hpp"
#include "messages/values/error.hpp"
#include "messages/values/result.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

class submission_queue;

/// What was asked; written before the operation is shared, constant afterwards.
struct operation_request {
  std::string name;
  farandole::signature signature;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::size_t bytes = 0; ///< of the input
  /// alltoall: rows for each member, by rank. Not part of the signature: members need not agree on them, and
  /// an id serves steps with different ones.
  std::vector<std::int64_t> splits;
  std::uint32_t set = 0;
  std::uint32_t group = 0;
  std::uint32_t group_size = 0;
  bool no_fast_path = false; ///< not for the board: nobody would wait for it there
  /// Whether its output stands in memory of ours: that goes when the caller has no handle any more, while the
  /// operation may be kept longer.
  bool lends = false;

  set_epoch epoch; ///< of its set
  /// Where it came in; empty for what never can be taken back.
  std::weak_ptr<farandole::submission_queue> home;
};

struct operation_state : operation_request, phase_word {
  operation_state() = default;
  operation_state(const operation_state&) = delete;
  operation_state& operator=(const operation_state&) = delete;

  /// As it was made, but for what recurs when the same is asked again (name, signature, set, epoch, home).
  /// For who holds it alone.
  void renew();

  // How it reaches the leader; the submission queue writes these before it queues the operation.
  std::uint32_t id = 0;              ///< 0: by full request
  std::vector<fast_path_round> left; ///< fast path rounds given up with it

  // Where it sits on the fast path; valid from phase boarded on, until it is queued.
  std::shared_ptr<fast_path_slot> seat;
  std::uint64_t round = 0;
  std::unique_ptr<caller_collective> collective; ///< where its callers run it themselves

  // How it ended; valid once settled.
  error problem;
  farandole::result outcome;
  result_memory::block owned;            ///< memory behind outcome.bytes, where the caller gave none
  std::atomic<bool> looked_after{false}; ///< the loop has been asked to
  std::atomic<bool> handed_on{false};    ///< the loop has asked a lane to go on with the collective

  /// The problem, for the caller: an epoch that ended with it has then been seen to end.
  const error& told() const {
    if (problem)
      epoch.told();
    return problem;
  }

  /// Before the operation is shared: it is going to take part in this round of its seat. False, and nothing
  /// has happened, where there is no memory for that now.
  bool take_seat(std::shared_ptr<fast_path_slot> slot, std::uint64_t which);
  /// It will not, after all.
  void leave_seat();
  /// Publishes its cell.
  void show();

  /// Ends the operation: the caller must have claimed it (or own it alone). Writes `how`, wakes, calls back.
  void settle(error reason);

  /// Claims from `from` and settles; false if somebody else did.
  bool claim_and_settle(phase from, error reason);

  /// Who may do more than look.
  enum class runner : std::uint8_t { nobody, caller };
  /// Settles the operation if it sits on the fast path and its round is complete. True when it is settled. A
  /// collective that callers run goes on here where `who` is the caller, on a thread that may be busy for as
  /// long as its bytes take.
  bool try_settle(runner runner = runner::caller);
  /// Whether try_settle() would go on with such a collective now.
  bool can_move() const;
  /// The generation ends: settles what sits on the fast path, well if its round is complete, else with `why`. All
  /// members come to the same of the two (board::give_up).
  /// False while a thread moves its bytes: ask again.
  bool end_on_fast_path(const error& reason);
  /// What of its round it waits for; empty when it waits for nothing on the fast path.
  std::optional<round_need> awaited() const;

  /// What became of a try to take an operation off the fast path.
  enum class leaving : std::uint8_t {
    left,  ///< it is queued, and this member takes no part in its round any more
    stays, ///< it is not on the fast path, or its round is complete: it ends, or has ended, as that says
    busy   ///< a thread moves its bytes: ask again
  };
  /// Gives its round up and takes this member's cell back, unless the round is complete. Whoever gets `left`
  /// brings the operation to the leader.
  leaving leave_fast_path();
  /// Takes memory for an output of which so many rows come from each member.
  error own_output(result_memory& memory, std::vector<std::int64_t> rows);

  /// Of an operation that lends: one more handle, and one less. It begins with one.
  void hold() { handles_.fetch_add(1, std::memory_order_relaxed); }
  bool let_go();

private:
  std::atomic<std::uint32_t> references_{1};
  std::atomic<std::uint32_t> handles_{1};
  std::atomic<bool> dropped_{false};

  void drop_memory();
  caller_tensor tensor() const;
  bool settle_on_fast_path(runner runner);
  void end_damaged();
  bool settle_shown();
  bool go_on();
  /// Settles what sits on the fast path; its caller has claimed it.
  void end_round(error reason);

  friend class operation_state_ptr;
};

/// Shares a pending operation.
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

  /// Gives up the reference without dropping it.
  operation_state* release() { return std::exchange(raw_, nullptr); }
  operation_state* get() const { return raw_; }
  operation_state* operator->() const { return raw_; }
  operation_state& operator*() const { return *raw_; }
  explicit operator bool() const { return raw_ != nullptr; }

  /// Nobody else holds it, nor can come to: others share only what they hold.
  bool alone() const { return raw_ && raw_->references_.load(std::memory_order_acquire) == 1; }

private:
  static void drop(operation_state* raw) {
    if (raw && raw->references_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      delete raw;
  }
  operation_state* raw_ = nullptr;
};

/// What a framework thread hands to the loop through the submission queue's queue: an operation that travels by the
/// leader, or one of these.
struct set_change_request {
  operation_state_ptr operation; ///< ends when the change has been made
  set_change change;
};
/// Takes an operation back if it has not been scheduled.
struct withdrawal_request {
  std::string name;
};
/// The loop is to look after an operation on the fast path.
struct watch_request {
  operation_state_ptr operation;
  bool slow; ///< somebody waits for it already, and it only takes long
};
using submission_message =
    std::variant<operation_state_ptr, set_change_request, withdrawal_request, watch_request>;

} // namespace farandole
