// Who sits down on the board, who stands up again, and who is taken off.
#include "actors/door/door.hpp"
#include "collectives/operation.hpp"

namespace farandole {

namespace {

/// Waits for a thread that moves its bytes.
bool leave_board(pending& operation) {
  constexpr std::chrono::milliseconds slice{100};
  for (;;) {
    const auto result = operation.leave_board();
    if (result != pending::leaving::busy)
      return result == pending::leaving::left;
    operation.wait_for_change(phase::moving, std::chrono::steady_clock::now() + slice);
  }
}

} // namespace

// Where nobody waits the loop would have to look at the board from time to time, which takes longer than to
// ask the leader; and a caller that does not go on with its collective at once keeps the others waiting.
bool door::wants_no_seat(const known_tensor& known, const pending& operation, told_by told) const {
  if (told == told_by::callback)
    return true;
  const auto use = known.seat ? known.seat->cell().task().use
                              : use_of_board(operation.signature, operation.bytes, board_limit_bytes_);
  return use == board_use::collective && told != told_by::waiting;
}

// Publishes on the board, where the tensors have seats. False, and none is published, when there is no memory
// for one of them now.
bool door::sit_down(std::span<const arrival> together) {
  for (std::size_t taken = 0; taken < together.size(); ++taken)
    if (!together[taken].operation->take_seat(together[taken].known.seat, together[taken].known.next_round)) {
      for (const auto& one : together.first(taken))
        one.operation->leave_seat();
      return false;
    }
  for (const auto& [known, operation] : together) {
    operation->show();
    ++known.next_round;
    on_board_.fetch_add(1, std::memory_order_relaxed);
  }
  return true;
}

// A member that has joined publishes nothing any more. What it had published before, in a round that is not
// complete, it takes off the board as well: members that publish later will not do so there. The leader is
// told before it hears of the join, and counts this member as one that asked.
void door::leave_all_seats(pending& join) {
  for (auto& [name, known] : table_) {
    auto& open = known.last;
    if (known.seat && open && leave_board(*open)) {
      known.next_round = open->round;
      stand_up(known, *open);
      enqueue(open);
    } else {
      stand_up(known, join);
    }
  }
}

// This member will not publish the tensor's next round: the request says so, and the id is forgotten.
void door::stand_up(known_tensor& known, pending& operation) {
  if (known.seat)
    operation.left.push_back({known.id, known.next_round});
  else if (operation.signature.operation == operation::join)
    return; // ids without a seat stay good while somebody has joined
  table_.forget(known);
}

door::attempt door::retract(board_round what, pending_ptr& taken) {
  std::unique_lock guard(mutex_, std::try_to_lock);
  if (!guard.owns_lock())
    return attempt::busy;
  read_news();
  auto* known = table_.find(what.id);
  if (!known)
    return attempt::done;
  if (known->last && is_on_board(known->last->now()) && known->last->round == what.round) {
    const auto result = known->last->leave_board();
    if (result == pending::leaving::busy)
      return attempt::busy;
    if (result == pending::leaving::left)
      taken = known->last;
  }
  table_.forget(what.id);
  return attempt::done;
}

} // namespace farandole
