// How an operation on the fast path is settled there. If the cells hold whole tensors, the result is computed once
// all cells are published. A collective that callers run continues as far as it can without waiting, on the thread
// of a waiting caller or of the lane.
#include <cassert>
#include <new>
#include <numeric>
#include <utility>

#include "actors/submission/nvtx_ranges.hpp"
#include "actors/submission/operation_state.hpp"
#include "actors/submission/submission_queue.hpp"
#include "collectives/operation.hpp"
#include "messages/values/printable.hpp"

namespace farandole {

namespace {

nvtx_range activity_of(const operation_state& operation) {
  if (!operation.profiled)
    return {};
  const auto& signature = operation.signature;
  return operation.profiled->ranges().activity("fast path", signature.operation, signature.reduce_op,
                                               operation.bytes);
}

} // namespace

bool operation_state::take_slot(std::shared_ptr<fast_path_slot> slot, std::uint64_t which) {
  taken_slot = std::move(slot);
  round = which;
  if (taken_slot->cell().task().use != fast_path_use::collective)
    return true;
  auto& fast_path = taken_slot->fast_path();
  const auto incoming =
      row_of(signature.operation).rows == row_use::dealt ? bytes : bytes * fast_path.members();
  collective = std::make_unique<caller_collective>(
      caller_job{fast_path, taken_slot->cell(), round, taken_slot->steps(), tensor(), taken_slot->results(),
                 taken_slot->predicted_bytes(incoming)});
  if (collective->prepare())
    return true;
  leave_slot();
  return false;
}

void operation_state::leave_slot() {
  collective.reset();
  taken_slot.reset();
  round = 0;
}

void operation_state::show() {
  if (collective)
    collective->show();
  else
    taken_slot->fast_path().publish(taken_slot->cell(), round, input);
  begin(phase::on_fast_path);
}

caller_tensor operation_state::tensor() const {
  caller_tensor own{input, output, bytes, 0, 0, splits};
  if (row_of(signature.operation).has_rows()) {
    own.row_bytes = bytes_of_row(signature);
    own.rows = signature.shape.front();
  }
  return own;
}

std::optional<round_need> operation_state::awaited() const {
  if (now() != phase::on_fast_path)
    return std::nullopt;
  return collective ? collective->need() : round_need{};
}

bool operation_state::pending() const {
  const auto current = now();
  return current == phase::queued ||
         (is_on_fast_path(current) && outcome_of_round() != round_outcome::complete);
}

std::optional<round_outcome> operation_state::outcome_of_round() const {
  return taken_slot->fast_path().outcome(taken_slot->cell(), round);
}

bool operation_state::can_move() const {
  return now() == phase::on_fast_path && collective &&
         taken_slot->fast_path().ready(taken_slot->cell(), round, collective->need());
}

bool operation_state::try_settle(runner runner) {
  const auto current = now();
  if (settle_on_fast_path(runner))
    return true;
  // This member has published, but another process has overwritten its cell: fails at once, instead of waiting for
  // the other members forever.
  if (runner == runner::caller && current == phase::on_fast_path && now() == current &&
      taken_slot->fast_path().damaged(taken_slot->cell(), round) && advance(current, phase::moving))
    break_round("this member's part of shared memory was overwritten by another process", runner);
  return settled();
}

bool operation_state::settle_on_fast_path(runner runner) {
  if (now() != phase::on_fast_path)
    return settled();
  if (!collective)
    return settle_shown();
  return runner != runner::nobody && can_move() ? go_on(runner) : settled();
}

// If the set or the runtime is ending already, the operation fails at once. If there is no memory for the report, the
// next attempt makes it.
void operation_state::break_round(std::string_view reason, runner runner) {
  error problem;
  bool told = false;
  try {
    problem = {error_kind::unknown, printable_name(name) + ": " + std::string(reason)};
    const auto submissions = runner == runner::caller ? queue.lock() : nullptr;
    told = submissions && submissions->report_broken(problem);
  } catch (const std::bad_alloc&) {
    return stop_moving(phase::on_fast_path);
  }
  taken_slot->fast_path().give_up(taken_slot->cell(), round);
  stop_moving(told ? phase::stranded : phase::claimed);
  if (!told)
    end_round(std::move(problem));
}

// While the phase is `moving`, only the thread that moves the bytes changes it.
void operation_state::stop_moving(phase next) {
  const auto moved_on = advance(phase::moving, next);
  assert(moved_on);
  static_cast<void>(moved_on);
}

// If all members have published but another member gave the round up before, the operation failed there and must not
// succeed here: it waits for the retraction, or the end of the generation, that ends it here as well.
bool operation_state::settle_shown() {
  auto& fast_path = taken_slot->fast_path();
  if (!fast_path.ready(taken_slot->cell(), round))
    return settled();
  if (fast_path.complete(taken_slot->cell(), round) == round_outcome::given_up) {
    advance(phase::on_fast_path, phase::stranded);
    return settled();
  }
  if (!advance(phase::on_fast_path, phase::claimed))
    return settled();
  end_round(collect_cells());
  return true;
}

error operation_state::collect_cells() {
  const auto activity = activity_of(*this);
  return taken_slot->fast_path().collect(taken_slot->cell(), round, output);
}

caller_collective::state operation_state::advance_collective() {
  const auto activity = activity_of(*this);
  return collective->advance();
}

bool operation_state::go_on(runner runner) {
  if (!advance(phase::on_fast_path, phase::moving))
    return settled();
  const auto begun = std::chrono::steady_clock::now();
  const auto state = advance_collective();
  taken_slot->record_move_time(std::chrono::steady_clock::now() - begun);
  // If another member has given the round up, its notice is on the way.
  if (state == caller_collective::state::failed && outcome_of_round() != round_outcome::given_up) {
    break_round(collective->problem().text, runner);
    return settled();
  }
  auto next = phase::claimed;
  if (state == caller_collective::state::waits)
    next = phase::on_fast_path;
  else if (state != caller_collective::state::done)
    next = phase::stranded;
  stop_moving(next);
  if (next != phase::claimed)
    return settled();
  end_round({});
  return true;
}

void operation_state::end_round(error reason) {
  if (collective && !reason) {
    taken_slot->add_steps(collective->steps());
    taken_slot->record_result_bytes(collective->result_bytes());
    if (row_of(signature.operation).has_rows()) {
      owned = collective->take_result();
      outcome.bytes = {owned ? owned.get() : output, collective->result_bytes()};
      outcome.first_dims = collective->first_dims();
    }
  }
  if (collective)
    collective->release();
  if (!reason && recorder && recorder->detailed())
    record_round();
  settle(std::move(reason), round + 1);
}

// Every member has published, and publishes its next round into the other half of the cell.
void operation_state::record_round() const {
  const auto& fast_path = taken_slot->fast_path();
  for (std::uint32_t member = 0; member < fast_path.members(); ++member)
    record(event_kind::cell_published, 0, fast_path.published_at(taken_slot->cell(), member, round), member);
}

// After shm_fast_path::retract() this member's cell is withdrawn: the operation can become stranded, but it can never
// be found complete.
operation_state::leaving operation_state::leave_fast_path() {
  const auto current_phase = now();
  if (!is_on_fast_path(current_phase))
    return leaving::stays;
  if (current_phase == phase::moving)
    return leaving::busy;
  if (!taken_slot->fast_path().retract(taken_slot->cell(), round))
    return leaving::stays;
  for (auto current = now(); is_on_fast_path(current) && current != phase::moving; current = now())
    if (advance(current, phase::queued)) {
      if (collective)
        collective->release();
      // Other operations of its group may be complete on the fast path, and would never reach the leader.
      group = group_size = 0;
      return leaving::left;
    }
  return is_on_fast_path(now()) ? leaving::busy : leaving::stays;
}

bool operation_state::end_on_fast_path(const error& reason) {
  if (try_settle(runner::nobody))
    return true;
  const auto current = now();
  if (current == phase::moving)
    return false;
  if (!is_on_fast_path(current))
    return true;
  // The member that found the round complete has seen everything that this member waits for, so try_settle() need not
  // wait. A thread that moves bytes may have looked before that, and is awaited.
  if (taken_slot->fast_path().give_up(taken_slot->cell(), round) == round_outcome::complete) {
    if (now() == phase::moving)
      return false;
    if (try_settle(runner::end))
      return true;
  }
  // The waiting thread may have changed the phase meanwhile.
  if (!advance(current, phase::claimed))
    return !is_on_fast_path(now());
  end_round(reason);
  return true;
}

error operation_state::own_output(result_memory& memory, std::vector<std::int64_t> rows) {
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
