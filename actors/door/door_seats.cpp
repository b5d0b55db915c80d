// Who sits down on the board, who stands up again, and who is taken off.
#include "actors/door/door.hpp"
#include "collectives/operation.hpp"

namespace farandole {

namespace {

bool shows_notice(const pending& operation) {
  return row_of(operation.signature.operation).on_board == board_use::notice;
}

} // namespace

// Where nobody waits the loop would have to look at the board from time to time, which takes longer than to
// ask the leader; and who does not copy what it was lent at once keeps the others waiting.
bool door::wants_no_seat(const entry& known, const pending& operation, told_by told) {
  if (told == told_by::callback)
    return true;
  if (!shows_notice(operation))
    return false;
  const bool can_lend =
      !known.seat || (known.seat->board().lends() && can_be_lent({operation.input, operation.bytes}));
  return told != told_by::waiting || !can_lend;
}

// Publishes on the board, where the tensor has a seat.
void door::sit_down(entry& known, const pending_ptr& operation) {
  operation->seat = known.seat;
  operation->round = known.next_round++;
  operation->start_on_board();
  auto& board = known.seat->board();
  if (shows_notice(*operation)) {
    operation->take_place();
    const auto notice = operation->own_notice();
    board.publish(known.seat->cell(), operation->round, std::as_bytes(std::span(notice)).data());
  } else {
    board.publish(known.seat->cell(), operation->round, operation->input);
  }
  on_board_.fetch_add(1, std::memory_order_relaxed);
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

// Waits for a thread that moves its bytes.
bool door::leave_board(pending& operation) {
  constexpr std::chrono::milliseconds slice{100};
  for (;;) {
    const auto result = operation.leave_board();
    if (result != pending::leaving::busy)
      return result == pending::leaving::left;
    operation.wait_for_change(phase::taking, std::chrono::steady_clock::now() + slice);
  }
}

// This member will not publish the tensor's next round: the request says so, and the id is forgotten.
void door::stand_up(entry& known, pending& operation) {
  if (known.seat)
    operation.left.push_back({known.id, known.next_round});
  else if (operation.signature.operation == operation::join)
    return; // ids without a seat stay good while somebody has joined
  names_.erase(known.id);
  known.id = 0;
  known.seat.reset();
}

door::attempt door::retract(board_round what, pending_ptr& taken) {
  std::unique_lock guard(mutex_, std::try_to_lock);
  if (!guard.owns_lock())
    return attempt::busy;
  read_news();
  auto named = names_.find(what.id);
  if (named == names_.end())
    return attempt::done;
  auto& known = table_.find(named->second)->second;
  if (known.last && is_on_board(known.last->now()) && known.last->round == what.round) {
    const auto result = known.last->leave_board();
    if (result == pending::leaving::busy)
      return attempt::busy;
    if (result == pending::leaving::left)
      taken = known.last;
  }
  forget_here(what.id);
  return attempt::done;
}

} // namespace farandole
