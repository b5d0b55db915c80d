// Who sits down on the fast path, who stands up again, and who is taken off.
#include "actors/submission/submission_queue.hpp"
#include "collectives/operation.hpp"

namespace farandole {

namespace {

/// Waits for a thread that moves its bytes.
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

// Where nobody waits the loop would have to look at the fast path from time to time, which takes longer than to
// ask the leader; and a caller that does not go on with its collective at once keeps the others waiting.
bool submission_queue::wants_no_seat(const known_tensor& entry, const operation_state& operation,
                                     completion_mode told) const {
  if (told == completion_mode::callback)
    return true;
  const auto use = entry.seat
                       ? entry.seat->cell().task().use
                       : use_of_fast_path(operation.signature, operation.bytes, fast_path_limit_bytes_);
  return use == fast_path_use::collective && told != completion_mode::waiting;
}

// Publishes on the fast path, where the tensors have seats. False, and none is published, when there is no memory
// for one of them now.
bool submission_queue::sit_down(std::span<const arrival> together) {
  for (std::size_t taken = 0; taken < together.size(); ++taken)
    if (!together[taken].operation->take_seat(together[taken].entry.seat, together[taken].entry.next_round)) {
      for (const auto& entry : together.first(taken))
        entry.operation->leave_seat();
      return false;
    }
  for (const auto& [tensor_entry, operation] : together) {
    operation->show();
    ++tensor_entry.next_round;
    on_fast_path_.fetch_add(1, std::memory_order_relaxed);
  }
  return true;
}

// A member that has joined publishes nothing any more. What it had published before, in a round that is not
// complete, it takes off the fast path as well: members that publish later will not do so there. The leader is
// told before it hears of the join, and counts this member as one that asked.
void submission_queue::leave_all_seats(operation_state& join) {
  for (auto& [name, entry] : table_) {
    auto& open = entry.last;
    if (entry.seat && open && leave_fast_path(*open)) {
      entry.next_round = open->round;
      stand_up(entry, *open);
      enqueue(open);
    } else {
      stand_up(entry, join);
    }
  }
}

// This member will not publish the tensor's next round: the request says so, and the id is forgotten.
void submission_queue::stand_up(known_tensor& entry, operation_state& operation) {
  if (entry.seat)
    operation.left.push_back({entry.id, entry.next_round});
  else if (operation.signature.operation == operation::join)
    return; // ids without a seat stay good while somebody has joined
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
