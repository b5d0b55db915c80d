// How an operation that sits on the board comes to its end there: what is shown whole is read; what is lent
// is copied by whoever waits for it, who then waits until the others have copied theirs.
#include <cassert>
#include <numeric>
#include <utility>

#include "actors/door/pending.hpp"
#include "collectives/operation.hpp"
#include "messages/printable.hpp"

namespace farandole {

namespace {

/// What is smaller is quickly copied out of the others' memory.
constexpr std::size_t least_place = std::size_t{128} << 10;

bool is_lent(const pending& one) {
  return one.seat && row_of(one.signature.operation).on_board == board_use::notice;
}

} // namespace

bool pending::can_take() const {
  return now() == phase::boarded && is_lent(*this) && seat->board().ready(seat->cell(), round);
}

bool pending::try_settle(mover who) {
  const auto here = now();
  if (settle_on_board(who))
    return true;
  // Who has published is told at once, and does not look for the others for ever.
  const auto stage = stage_of(here);
  if (who == mover::caller && stage && now() == here && seat->board().damaged(seat->cell(), round, *stage))
    end_damaged(here);
  return settled();
}

bool pending::settle_on_board(mover who) {
  switch (now()) {
  case phase::boarded:
    if (!is_lent(*this))
      return settle_shown();
    if (who == mover::caller && can_take() && advance(phase::boarded, phase::taking))
      take_lent();
    [[fallthrough]];
  case phase::lent:
    if (now() == phase::lent && seat->board().ready(seat->cell(), round, board_stage::taken) &&
        round_complete(phase::lent) && advance(phase::lent, phase::claimed))
      settle(how_it_went());
    return settled();
  default:
    return settled();
  }
}

void pending::end_damaged(phase here) {
  seat->board().give_up(seat->cell(), round);
  if (is_lent(*this))
    seat->board().withdraw(seat->cell(), round);
  claim_and_settle(here, {error_kind::unknown, printable_name(name) +
                                                   ": this member's part of shared memory was overwritten by "
                                                   "another process"});
}

error pending::how_it_went() {
  if (!trouble && placed && !seat->board().all_gave(seat->cell(), round))
    trouble = {error_kind::unknown,
               printable_name(name) + ": a local member could not write what it had for others"};
  return std::move(trouble);
}

// All have come to the round's last stage. If another member gave the round up before, it failed there, and
// must not succeed here: the operation waits for the word that ends it here as well.
bool pending::round_complete(phase here) {
  if (seat->board().complete(seat->cell(), round) == round_outcome::complete)
    return true;
  advance(here, phase::stranded);
  return false;
}

bool pending::settle_shown() {
  if (!seat->board().ready(seat->cell(), round) || !round_complete(phase::boarded) ||
      !advance(phase::boarded, phase::claimed))
    return settled();
  settle(seat->board().collect(seat->cell(), round, output));
  return true;
}

void pending::take_lent() {
  const auto begun = std::chrono::steady_clock::now();
  auto& board = seat->board();
  const auto all = board.notices(seat->cell(), round, own_notice());
  auto plan = all ? plan_taking(signature.operation, *all, board.rank(), bytes_of_row(signature))
                  : expected<taking>(all.error());
  taking moved;
  if (plan) {
    moved = std::move(*plan);
    seat->came(moved.bytes);
    trouble = receive(moved);
  } else {
    trouble = {plan.error().kind, printable_name(name) + ": " + plan.error().text};
    moved.spoilt = true;
  }
  // What cannot be taken is left, and the others are told that it was: they need not suffer.
  const auto why = board.take(seat->cell(), round, moved, owned.get());
  if (why && why.kind != error_kind::disconnected)
    trouble = {why.kind, printable_name(name) + ": " + why.text};
  seat->took(std::chrono::steady_clock::now() - begun);
  const bool stranded = why.kind == error_kind::disconnected;
  const auto moved_on = advance(phase::taking, stranded ? phase::stranded : phase::lent);
  assert(moved_on && "who takes is alone with it");
  static_cast<void>(moved_on);
}

// Where the output stands: in its place, or, when that is too small, where this member copies everything
// itself.
error pending::receive(taking& what) {
  if (what.placed) {
    outcome.bytes = {owned.get(), what.bytes};
    outcome.first_dims = what.rows;
    return {};
  }
  placed = false; // nobody writes there
  auto why = own_output(seat->results(), what.rows);
  if (why)
    what.pieces.clear();
  return why;
}

notice_place pending::take_place() {
  const auto& room = seat->board().arena();
  const auto all =
      row_of(signature.operation).rows == row_use::dealt ? bytes : bytes * seat->board().members();
  const auto expected = seat->expects(all);
  if (!room || expected < least_place)
    return {};
  owned = seat->results().take(expected, room);
  placed = owned != nullptr;
  return shown_place();
}

notice_place pending::shown_place() const {
  if (!placed)
    return {};
  return {seat->board().arena()->offset_of(owned.get()), owned.get_deleter().bytes};
}

notice pending::own_notice() const {
  const std::size_t members = seat->board().members();
  return splits.empty() ? make_notice(input, shown_place(), std::vector(members, signature.shape.front()))
                        : make_notice(input, shown_place(), splits);
}

void pending::leave_place() {
  if (std::exchange(placed, false) && owned)
    result_memory::abandon(std::move(owned));
}

// After board::retract, this member's cell is not there any more: the operation can become stranded, but it
// can neither be taken nor be found complete.
pending::leaving pending::leave_board() {
  if (try_settle(mover::nobody) || !is_on_board(now()))
    return leaving::stays;
  if (now() == phase::taking)
    return leaving::busy;
  if (!seat->board().retract(seat->cell(), round)) {
    try_settle(mover::nobody);
    return leaving::stays;
  }
  for (auto here = now(); is_on_board(here) && here != phase::taking; here = now())
    if (advance(here, phase::queued)) {
      leave_place();
      owned.reset();
      outcome = {};
      trouble = {};
      return leaving::left;
    }
  return is_on_board(now()) ? leaving::busy : leaving::stays;
}

bool pending::end_on_board(const error& why) {
  if (try_settle(mover::nobody))
    return true;
  const auto here = now();
  if (here == phase::taking)
    return false;
  if (!is_on_board(here))
    return true;
  // Whoever found the round complete has seen every cell, so this member sees them too.
  if (seat->board().give_up(seat->cell(), round) == round_outcome::complete && try_settle(mover::nobody))
    return true;
  if (is_lent(*this))
    seat->board().withdraw(seat->cell(), round);
  // The caller may have moved on meanwhile.
  return claim_and_settle(here, why) || !is_on_board(now());
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
