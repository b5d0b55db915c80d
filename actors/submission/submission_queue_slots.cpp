// The part of the submission queue that decides which operations enter the fast path, leave it, or are taken off it.
#include "actors/submission/submission_queue.hpp"
#include "collectives/operation.hpp"

namespace farandole {

namespace {

/// Waits while another thread moves the operation's bytes. Returns whether the operation has left.
bool leave_fast_path(operation_state& operation) {
  constexpr std::chrono::milliseconds slice{100};
  for (;;) {
    const auto result = operation.leave_fast_path();
    if (result != operation_state::leaving::busy)
      return result == operation_state::leaving::left;
    operation.wait_for_change(phase::moving, std::chrono::steady_clock::now() + slice);
  }
}

} // namespace

// Whether to keep the operation off the fast path, where all members contribute. Without a waiting caller, the event
// loop would have to poll the fast path, which takes longer than to ask the leader; and a caller that does not continue
// its collective at once keeps the other members waiting.
bool submission_queue::refuses_fast_path(const known_tensor& entry, const operation_state& operation,
                                         completion_mode completion) const {
  if (completion == completion_mode::callback || operation.absent)
    return true;
  const auto use = entry.slot
                       ? entry.slot->cell().task().use
                       : use_of_fast_path(operation.signature, operation.bytes, fast_path_limit_bytes_);
  return use == fast_path_use::collective && completion != completion_mode::wait;
}

// Publishes the operations on the fast path, where their tensors have slots. Returns false, and publishes none, if
// there is no memory for one of them now.
bool submission_queue::publish_together(std::span<const arrival> together) {
  for (std::size_t taken = 0; taken < together.size(); ++taken)
    if (!together[taken].operation->take_slot(together[taken].entry.slot, together[taken].entry.next_round)) {
      for (const auto& entry : together.first(taken))
        entry.operation->leave_slot();
      return false;
    }
  for (const auto& [tensor_entry, operation] : together) {
    operation->record(event_kind::published, operation->recorded_operation(), operation->bytes,
                      operation->round);
    operation->show();
    ++tensor_entry.next_round;
    on_fast_path_.fetch_add(1, std::memory_order_relaxed);
  }
  return true;
}

// A member that has joined publishes nothing any more. It also takes its published cells of incomplete rounds off the
// fast path, because members that publish later will not do so there. These requests reach the leader before the join
// does, so the leader counts this member as one that has requested the tensors.
void submission_queue::leave_all_slots(operation_state& join) {
  for (auto& [name, entry] : table_) {
    auto& open = entry.last;
    if (entry.slot && open && leave_fast_path(*open))
      request_instead(*open);
    else
      give_up_next_round(entry, join);
  }
}

void submission_queue::withdraw(operation_state& operation) {
  if (operation.name == set_change_name)
    return; // other members may rely on it already
  // Without the lock: if the operation is complete on the fast path, its callback may submit again.
  if (operation.try_settle(operation_state::runner::nobody))
    return;
  error reason;
  bool left = false;
  {
    // A join must not come between the departure from the round and the request that names it.
    std::lock_guard guard(mutex_);
    left = leave_fast_path(operation);
    reason = ended_;
    read_news();
    if (!reason && left)
      request_instead(operation);
    if (!reason && operation.now() == phase::queued)
      enqueue(withdrawal_request{operation.name});
  }
  if (left && reason)
    operation.claim_and_settle(phase::queued, reason);
}

// The operation has left the fast path: it is requested from the leader.
void submission_queue::request_instead(operation_state& operation) {
  auto& entry = table_.at(operation.name);
  entry.next_round = operation.round;
  give_up_next_round(entry, operation);
  enqueue(operation_state_ptr::share(&operation));
}

// This member will not publish the tensor's next round: the request says so, and the id is forgotten.
void submission_queue::give_up_next_round(known_tensor& entry, operation_state& operation) {
  if (entry.slot)
    operation.left.push_back({entry.id, entry.next_round});
  else if (operation.signature.operation == operation::join)
    return; // ids without a slot remain valid while a member has joined
  table_.forget(entry);
}

submission_queue::attempt submission_queue::retract(fast_path_round round, operation_state_ptr& taken) {
  std::unique_lock guard(mutex_, std::try_to_lock);
  if (!guard.owns_lock())
    return attempt::busy;
  read_news();
  auto* entry = table_.find(round.id);
  if (!entry)
    return attempt::done;
  if (entry->last && is_on_fast_path(entry->last->now()) && entry->last->round == round.round) {
    const auto result = entry->last->leave_fast_path();
    if (result == operation_state::leaving::busy)
      return attempt::busy;
    if (result == operation_state::leaving::left)
      taken = entry->last;
  }
  table_.forget(round.id);
  return attempt::done;
}

} // namespace farandole
