// How an operation that sits on the board comes to its end there: what is shown whole is read; a collective
// that callers run goes on as far as it can, on the thread of whoever waits for it.
#include <cassert>
#include <numeric>
#include <utility>

#include "actors/door/pending.hpp"
#include "collectives/operation.hpp"
#include "messages/printable.hpp"

namespace farandole {

bool pending::take_seat(std::shared_ptr<board_seat> where, std::uint64_t which) {
  seat = std::move(where);
  round = which;
  if (seat->cell().task().use != board_use::collective)
    return true;
  auto& board = seat->board();
  const auto incoming = row_of(signature.operation).rows == row_use::dealt ? bytes : bytes * board.members();
  collective = std::make_unique<caller_collective>(caller_job{
      board, seat->cell(), round, seat->steps(), tensor(), seat->results(), seat->expects(incoming)});
  if (collective->prepare())
    return true;
  leave_seat();
  return false;
}

void pending::leave_seat() {
  collective.reset();
  seat.reset();
  round = 0;
}

void pending::show() {
  if (collective)
    collective->show();
  else
    seat->board().publish(seat->cell(), round, input);
  begin(phase::boarded);
}

caller_tensor pending::tensor() const {
  caller_tensor own{input, output, bytes, 0, 0, splits};
  if (row_of(signature.operation).has_rows()) {
    own.row_bytes = bytes_of_row(signature);
    own.rows = signature.shape.front();
  }
  return own;
}

std::optional<round_need> pending::awaited() const {
  if (now() != phase::boarded)
    return std::nullopt;
  return collective ? collective->need() : round_need{};
}

bool pending::can_move() const {
  return now() == phase::boarded && collective &&
         seat->board().ready(seat->cell(), round, collective->need());
}

bool pending::try_settle(mover who) {
  const auto here = now();
  if (settle_on_board(who))
    return true;
  // Who has published is told at once, and does not look for the others for ever.
  if (who == mover::caller && here == phase::boarded && now() == here &&
      seat->board().damaged(seat->cell(), round))
    end_damaged();
  return settled();
}

bool pending::settle_on_board(mover who) {
  if (now() != phase::boarded)
    return settled();
  if (!collective)
    return settle_shown();
  return who == mover::caller && can_move() ? go_on() : settled();
}

void pending::end_damaged() {
  seat->board().give_up(seat->cell(), round);
  if (!advance(phase::boarded, phase::claimed))
    return;
  end_round({error_kind::unknown, printable_name(name) + ": this member's part of shared memory was "
                                                         "overwritten by another process"});
}

// All have come. If another member gave the round up before, it failed there, and must not succeed here: the
// operation waits for the word that ends it here as well.
bool pending::settle_shown() {
  auto& board = seat->board();
  if (!board.ready(seat->cell(), round))
    return settled();
  if (board.complete(seat->cell(), round) == round_outcome::given_up) {
    advance(phase::boarded, phase::stranded);
    return settled();
  }
  if (!advance(phase::boarded, phase::claimed))
    return settled();
  end_round(board.collect(seat->cell(), round, output));
  return true;
}

bool pending::go_on() {
  if (!advance(phase::boarded, phase::moving))
    return settled();
  const auto begun = std::chrono::steady_clock::now();
  const auto state = collective->advance();
  seat->took(std::chrono::steady_clock::now() - begun);
  auto next = phase::claimed;
  if (state == caller_collective::state::waits)
    next = phase::boarded;
  else if (state == caller_collective::state::given_up)
    next = phase::stranded;
  const auto moved_on = advance(phase::moving, next);
  assert(moved_on && "the thread that moves is alone with it");
  static_cast<void>(moved_on);
  if (next != phase::claimed)
    return settled();
  if (state == caller_collective::state::done) {
    end_round({});
  } else {
    seat->board().give_up(seat->cell(), round);
    const auto& why = collective->problem();
    end_round({why.kind, printable_name(name) + ": " + why.text});
  }
  return true;
}

void pending::end_round(error why) {
  if (collective && !why) {
    seat->add_steps(collective->steps());
    seat->came(collective->result_bytes());
    if (row_of(signature.operation).has_rows()) {
      owned = collective->take_result();
      outcome.bytes = {owned ? owned.get() : output, collective->result_bytes()};
      outcome.first_dims = collective->first_dims();
    }
  }
  if (collective)
    collective->release();
  settle(std::move(why));
}

// After board::retract, this member's cell is not there any more: the operation can become stranded, but it
// can never be found complete.
pending::leaving pending::leave_board() {
  if (try_settle(mover::nobody) || !is_on_board(now()))
    return leaving::stays;
  if (now() == phase::moving)
    return leaving::busy;
  if (!seat->board().retract(seat->cell(), round)) {
    try_settle(mover::nobody);
    return leaving::stays;
  }
  for (auto here = now(); is_on_board(here) && here != phase::moving; here = now())
    if (advance(here, phase::queued)) {
      if (collective)
        collective->release();
      // Others of its group may be complete, and would not come to the leader.
      group = group_size = 0;
      return leaving::left;
    }
  return is_on_board(now()) ? leaving::busy : leaving::stays;
}

bool pending::end_on_board(const error& why) {
  if (try_settle(mover::nobody))
    return true;
  const auto here = now();
  if (here == phase::moving)
    return false;
  if (!is_on_board(here))
    return true;
  // Whoever found the round complete has seen all that this member waits for, so it need not wait any more.
  if (seat->board().give_up(seat->cell(), round) == round_outcome::complete && try_settle())
    return true;
  // The caller may have moved on meanwhile.
  if (!advance(here, phase::claimed))
    return !is_on_board(now());
  end_round(why);
  return true;
}

error pending::own_output(result_memory& memory, std::vector<std::int64_t> rows) {
  const auto all = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  const auto total = static_cast<std::size_t>(all) * bytes_of_row(signature);
  owned = memory.take(total);
  if (!owned)
    return {error_kind::unknown, printable_name(name) + ": no memory for the " + std::to_string(total) +
                                     " bytes that " + std::string(row_of(signature.operation).name) +
                                     " brings"};
  outcome.bytes = {owned.get(), total};
  outcome.first_dims = std::move(rows);
  return {};
}

} // namespace farandole
