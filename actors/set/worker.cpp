#include "actors/set/worker.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "actors/door/request_check.hpp"
#include "actors/interfaces/generation.hpp"
#include "actors/interfaces/heartbeats.hpp"
#include "actors/interfaces/negotiation.hpp"
#include "actors/interfaces/stalls.hpp"
#include "actors/set/bundle_builder.hpp"
#include "collectives/operation.hpp"
#include "collectives/plan/departure_report.hpp"
#include "messages/schedule_order.hpp"

namespace farandole {

namespace {

// How often the loop looks at operations on the board whose callers left a callback instead of waiting: soon
// after the last one came, for the others are about to come too, then ever less often.
constexpr std::chrono::microseconds shortest_look_interval{20};
constexpr std::chrono::microseconds longest_look_interval{1000};

request full_request(const pending& operation) {
  return {operation.name, operation.signature, operation.group, operation.group_size, operation.seatless};
}

std::chrono::nanoseconds since_start(caf::actor_clock::time_point when) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(when.time_since_epoch());
}

void append(requests& out, const bucket_shelf::ids& ids) {
  out.ids.insert(out.ids.end(), ids.begin(), ids.end());
}

/// Asks for an id: with its bucket, if the shelf takes it.
void ask(bucket_shelf& shelf, std::uint32_t id, std::chrono::nanoseconds now, requests& out) {
  // It is asked for again, so what was asked before has been answered some other way.
  if (shelf.holds(id))
    append(out, shelf.let_go(id));
  if (!shelf.takes(id))
    out.ids.push_back(id);
  else if (const auto whole = shelf.put(id, now))
    out.buckets.push_back(*whole);
}

} // namespace

void worker_state::begin(worker_setup how) {
  setup_ = std::move(how);
}

// ---- from the door to the leader -----------------------------------------------------------------

void worker_state::drain_door() {
  auto queued = setup_.door->take_queue();
  requests out;
  std::size_t inline_bytes = 0;
  for (auto& message : queued)
    std::visit(for_parts{
                   [&](pending_ptr& operation) { announce(std::move(operation), out, inline_bytes); },
                   [&](set_change_request& request) {
                     out.change = std::move(request.change);
                     announce(std::move(request.operation), out, inline_bytes);
                   },
                   [&](withdrawal_request& request) { out.withdraw.push_back(std::move(request.name)); },
                   [&](watch_request& request) { watch(std::move(request)); },
               },
               message);
  if (over_)
    return;
  send(std::move(out));
  arm();
}

// Settles what nobody may come to wait for; looks again until none of it is on the board.
void worker_state::look() {
  if (self->clock().now() < next_look_)
    return;
  board_.look(setup_.move);
  if (board_.watches())
    look_in(std::min(2 * look_interval_, longest_look_interval));
}

void worker_state::look_in(std::chrono::microseconds interval) {
  look_interval_ = interval;
  next_look_ = self->clock().now() + interval;
  self->delayed_send(self, interval, look_atom::value);
}

stall_list worker_state::stalled(std::chrono::nanoseconds limit) {
  if (over_)
    return {};
  return {board_.stalled(self->clock().now(), limit, setup_.ranks)};
}

void worker_state::watch(watch_request request) {
  if (over_)
    return;
  const auto now = self->clock().now();
  if (request.slow)
    return board_.add_slow(std::move(request.operation), now - slow_wait);
  board_.add(std::move(request.operation), now);
  if (board_.watched() == 1 || look_interval_ != shortest_look_interval)
    look_in(shortest_look_interval);
}

void worker_state::announce(pending_ptr operation, requests& out, std::size_t& inline_bytes) {
  if (over_) {
    operation->claim_and_settle(phase::queued, over_);
    return;
  }
  out.left.insert(out.left.end(), operation->left.begin(), operation->left.end());
  if (operation->id != 0) {
    ask(shelf_, operation->id, since_start(self->clock().now()), out);
    add_value(*operation, out, inline_bytes);
  } else if (operation->signature.operation == operation::join) {
    out.join = joined_ = true;
  } else if (operation->name != set_change_name) { // which `out.change` asks for
    out.full.push_back(full_request(*operation));
  }
  operations_.add(std::move(operation));
}

void worker_state::send(requests what) {
  if (what.must_not_overtake())
    append(what, shelf_.let_all_go());
  if (!what.empty())
    self->send(setup_.post, encode(setup_.self, what));
}

void worker_state::tick() {
  const auto now = self->clock().now();
  if (!next_tick_ || now < *next_tick_)
    return;
  next_tick_.reset();
  requests out;
  if (!over_)
    append(out, shelf_.overdue(since_start(now)));
  send(std::move(out));
  arm();
}

// A tick that is set stays: what came later waits longer, or the tick looks again.
void worker_state::arm() {
  const auto wake = shelf_.wake_at();
  if (!wake || over_)
    return;
  const caf::actor_clock::time_point when{
      std::chrono::duration_cast<caf::actor_clock::time_point::duration>(*wake)};
  if (next_tick_ && *next_tick_ <= when)
    return;
  next_tick_ = when;
  self->delayed_send(self, when - self->clock().now(), tick_atom::value);
}

void worker_state::leave(departure how) {
  requests out;
  out.leaves = std::move(how);
  send(std::move(out));
}

// Where the leader is no member, it learns from here how far the lanes are.
void worker_state::report(const bundle_finished& what) {
  requests out;
  out.finished = what.sequence + 1;
  if (!over_)
    send(std::move(out));
}

// ---- the leader's schedule, part by part in the order of schedule_order.hpp ----------------------

void worker_state::follow(const envelope& message) {
  auto plan = decode_schedule(message, setup_.members);
  if (!plan) {
    self->send(setup_.member,
               generation_broken{"the leader's schedule was not understood: " + plan.error().text});
    return;
  }
  if (over_)
    return;
  for_each_part(*plan,
                for_parts{
                    [this, &plan](part_tag<schedule_part::assignments>, auto&) { apply_assignments(*plan); },
                    [this](part_tag<schedule_part::dissolved>, auto& buckets) {
                      requests out;
                      for (const auto bucket : buckets)
                        append(out, shelf_.dissolve(bucket));
                      send(std::move(out));
                    },
                    [this](part_tag<schedule_part::forget>, auto& ids) {
                      for (auto id : ids)
                        setup_.door->forget(id);
                    },
                    [this](part_tag<schedule_part::retract>, auto& rounds) {
                      for (const auto& round : rounds)
                        retract(round);
                    },
                    [this](part_tag<schedule_part::failures>, auto& failures) {
                      for (const auto& failure : failures)
                        if (auto failed = operations_.take_under_any_key(failure.name))
                          failed->claim_and_settle(phase::queued, failure.reason);
                    },
                    [this, &plan](part_tag<schedule_part::ask>, auto&) { answer_questions(*plan); },
                    [this, &plan](part_tag<schedule_part::results>, auto&) { apply_results(*plan); },
                    [this, &plan](part_tag<schedule_part::bundles>, auto&) { run_bundles(*plan); },
                    [this](part_tag<schedule_part::buckets>, auto& buckets) {
                      requests out;
                      for (const auto& planned : buckets)
                        append(out, shelf_.add(planned));
                      send(std::move(out));
                    },
                    [this](part_tag<schedule_part::joined>, std::int32_t last_rank) {
                      if (last_rank < 0)
                        return;
                      joined_ = false;
                      if (auto join = operations_.take_join()) {
                        join->outcome.last_rank = last_rank;
                        join->claim_and_settle(phase::queued, {});
                      }
                    },
                    [this](part_tag<schedule_part::restarts>, auto& restarts) {
                      if (!restarts.empty())
                        self->send(setup_.sets, sets_restarted{std::move(restarts)});
                    },
                    [](part_tag<schedule_part::sets>, auto&) {}, // with `changed`
                    [this, &plan](part_tag<schedule_part::changed>, bool changed) {
                      if (changed)
                        change_sets(*plan);
                    },
                    [](part_tag<schedule_part::departed>, auto&) {}, // with `end`
                    [this, &plan](part_tag<schedule_part::end>, bool ends) {
                      if (ends)
                        end_in_order(*plan);
                    },
                });
}

// The set's last schedule.
void worker_state::end_in_order(const schedule& plan) {
  if (setup_.ended)
    return setup_.ended();
  departed_ = plan.departed.value_or(departed_member{});
  finish_generation();
}

void worker_state::apply_assignments(const schedule& plan) {
  for (auto& one : plan.assignments)
    if (const auto* known = operations_.assign(one.id, one.name))
      setup_.door->learn(one.id, *known, seat_for(one, known->signature));
}

std::shared_ptr<board_seat> worker_state::seat_for(const assignment& what, const signature& own) {
  auto board = what.cell >= 0 && setup_.board ? setup_.board() : nullptr;
  if (!board)
    return nullptr;
  board_task task;
  task.operation = own.operation;
  task.dtype = own.dtype;
  task.reduce_op = own.reduce_op;
  task.prescale = own.prescale;
  task.postscale = own.postscale;
  task.root = place_of(own.root, setup_.ranks);
  task.bytes = static_cast<std::size_t>(element_count(own.shape)) * size_of(own.dtype);
  task.use = use_of_board(own, task.bytes, setup_.board_limit_bytes);
  if (task.use == board_use::collective)
    task.bytes = farandole::board::collective_cell_bytes(static_cast<std::size_t>(setup_.members));
  auto cell = board->open(what.id, what.cell, farandole::board::footprint(what.cell_bytes), task);
  if (!cell) {
    self->send(setup_.member, generation_broken{"the board has no such cell: " + cell.error().text});
    return nullptr;
  }
  return std::make_shared<board_seat>(std::move(board), *cell, setup_.results);
}

// Takes our cell back if we wait on the board in just that round; the tensor then goes to the leader in full.
void worker_state::retract(board_round what) {
  pending_ptr taken;
  if (setup_.door->retract(what, taken) == door::attempt::busy) {
    retractions_.push_back(what);
    try_later();
    return;
  }
  if (!taken)
    return;
  requests out;
  out.full.push_back(full_request(*taken));
  operations_.add_by_name(std::move(taken));
  send(std::move(out));
}

void worker_state::answer_questions(const schedule& plan) {
  requests out;
  for (auto id : plan.ask) {
    auto operation = operations_.take(id);
    if (!operation)
      continue;
    setup_.door->forget(id);
    out.full.push_back(full_request(*operation));
    operations_.add_by_name(std::move(operation));
  }
  send(std::move(out));
}

// What all had asked for starts and ends; who asked here is told when that has come about on this member.
void worker_state::change_sets(schedule& plan) {
  self->send(setup_.sets, sets_changed{std::move(plan.sets), operations_.take(std::string(set_change_name))});
}

// ---- bundles -------------------------------------------------------------------------------------

void worker_state::run_bundles(const schedule& plan) {
  const bundle_builder builder(setup_.rank, setup_.members, setup_.ranks);
  for (auto& one : plan.bundles) {
    std::vector<pending_ptr> operations;
    operations.reserve(one.entries.size());
    for (auto& entry : one.entries)
      operations.push_back(operations_.claim(entry.id, entry.name));
    auto job = builder.build(one, std::move(operations), joined_);
    if (!job) {
      self->send(setup_.member, generation_broken{job.error().text});
      return;
    }
    (*job)->home = setup_.lane;
    self->send(setup_.mover, std::make_shared<std::unique_ptr<lane_job>>(std::move(*job)));
  }
}

// ---- the end -------------------------------------------------------------------------------------

// Needs the door, which may be busy: then it is tried again soon.
void worker_state::finish_generation() {
  departure_report report;
  if (setup_.door->pending_names(report.pending) == door::attempt::busy)
    return try_later();
  const auto departed = *std::exchange(departed_, std::nullopt);
  report.how = departed.how;
  report.own = departed.rank == setup_.self.source;
  report.member = setup_.name_of ? setup_.name_of(departed.rank) : "rank " + std::to_string(departed.rank);
  report.submitted = setup_.door->submitted();
  const bool interrupted = !report.own && !report.pending.empty();
  end(departure_error(std::move(report)));
  self->send(setup_.member, generation_ended{departed, interrupted, over_});
}

void worker_state::end(const error& why) {
  if (over_)
    return;
  over_ = why;
  door_told_ = false;
  retry();
}

void worker_state::retry() {
  retrying_ = false;
  if (departed_ && !over_)
    finish_generation();
  for (auto one : std::exchange(retractions_, {}))
    if (!over_)
      retract(one);
  if (over_ && !door_told_) {
    if (setup_.door->end(over_) == door::attempt::busy)
      return try_later();
    door_told_ = true;
    drain_door();
    operations_.settle_all(over_);
    if (setup_.settled)
      setup_.settled();
  }
}

void worker_state::try_later() {
  if (!std::exchange(retrying_, true))
    self->delayed_send(self, std::chrono::microseconds(50), retry_atom::value);
}

worker_actor::behavior_type worker(worker_actor::stateful_pointer<worker_state> self, worker_setup how) {
  auto& state = self->state;
  state.begin(std::move(how));
  return {
      [&state](doorbell_atom) { state.drain_door(); },
      [&state](const envelope& message) { state.follow(message); },
      [&state](const leave_request& what) { state.leave(what.how); },
      [&state](const generation_over& what) { state.end(what.why); },
      [&state](retry_atom) { state.retry(); },
      [&state](look_atom) { state.look(); },
      [&state](tick_atom) { state.tick(); },
      [&state](const processes_silent& what) { state.judge(what); },
      [&state](const bundle_finished& what) { state.report(what); },
      [&state](stalled_atom, std::chrono::nanoseconds limit) { return state.stalled(limit); },
  };
}

} // namespace farandole
