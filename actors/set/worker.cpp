#include "actors/set/worker.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "actors/door/request_check.hpp"
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

// `table[operation->name] = std::move(operation)` would move before it looks: the right side is evaluated
// first.
template <class Table>
void hold(Table& table, const typename Table::key_type& key, pending_ptr&& operation) {
  table.insert_or_assign(key, std::move(operation));
}

request full_request(const pending& operation) {
  return {operation.name, operation.signature, operation.group, operation.group_size, operation.seatless};
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
    std::visit([&](auto& each) { take(std::move(each), out, inline_bytes); }, message);
  if (over_)
    return;
  send(std::move(out));
  arm();
}

// Settles what nobody may come to wait for; looks again until none of it is on the board.
void worker_state::look() {
  if (self->clock().now() < next_look_)
    return;
  std::erase_if(watched_, [this](boarded_one& one) {
    if (setup_.move && one.operation->can_move() &&
        !one.operation->handed_on.exchange(true, std::memory_order_acq_rel))
      setup_.move(one.operation);
    return one.operation->try_settle(pending::mover::nobody) || !is_on_board(one.operation->now());
  });
  if (!watched_.empty())
    look_in(std::min(2 * look_interval_, longest_look_interval));
}

void worker_state::look_in(std::chrono::microseconds interval) {
  look_interval_ = interval;
  next_look_ = self->clock().now() + interval;
  self->delayed_send(self, interval, look_atom::value);
}

// Only asks the board: who waits, or look(), settles.
stall_list worker_state::stalled(std::chrono::nanoseconds limit) {
  std::erase_if(slow_, [](const boarded_one& one) { return !one.operation->awaited(); });
  stall_list all;
  const auto now = self->clock().now();
  const auto add = [&](const boarded_one& one) {
    const auto waited = now - one.since;
    const auto need = one.operation->awaited();
    if (over_ || waited <= limit || !need)
      return;
    auto& seat = *one.operation->seat;
    stall found{one.operation->name, waited, seat.board().missing(seat.cell(), one.operation->round, *need)};
    if (!setup_.ranks.empty())
      for (auto& rank : found.missing)
        rank = setup_.ranks[static_cast<std::size_t>(rank)];
    if (!found.missing.empty())
      all.stalls.push_back(std::move(found));
  };
  std::for_each(watched_.begin(), watched_.end(), add);
  for (const auto& one : slow_) {
    const bool told = std::any_of(watched_.begin(), watched_.end(), [&one](const boarded_one& other) {
      return other.operation.get() == one.operation.get();
    });
    if (!told)
      add(one);
  }
  return all;
}

void worker_state::take(watch_request&& request, requests&, std::size_t&) {
  if (over_)
    return;
  const auto now = self->clock().now();
  if (request.slow) {
    std::erase_if(slow_, [](const boarded_one& one) { return !one.operation->awaited(); });
    slow_.push_back({std::move(request.operation), now - slow_wait});
    return;
  }
  watched_.push_back({std::move(request.operation), now});
  if (watched_.size() == 1 || look_interval_ != shortest_look_interval)
    look_in(shortest_look_interval);
}

void worker_state::take(withdrawal_request&& request, requests& out, std::size_t&) {
  out.withdraw.push_back(std::move(request.name));
}

void worker_state::take(set_change_request&& request, requests& out, std::size_t&) {
  if (over_) {
    request.operation->claim_and_settle(phase::queued, over_);
    return;
  }
  out.change = std::move(request.change);
  hold(by_name_, request.operation->name, std::move(request.operation));
}

void worker_state::take(pending_ptr&& operation, requests& out, std::size_t& inline_bytes) {
  if (over_) {
    operation->claim_and_settle(phase::queued, over_);
    return;
  }
  out.left.insert(out.left.end(), operation->left.begin(), operation->left.end());
  if (operation->id != 0) {
    ask(operation->id, out);
    add_value(*operation, out, inline_bytes);
    hold(by_id_, operation->id, std::move(operation));
    return;
  }
  if (operation->signature.operation == operation::join)
    out.join = joined_ = true;
  else
    out.full.push_back(full_request(*operation));
  hold(by_name_, operation->name, std::move(operation));
}

void worker_state::send(requests what) {
  if (what.must_not_overtake())
    let_go(shelf_.let_all_go(), what);
  if (!what.empty())
    self->send(setup_.post, outbound{setup_.leader, encode(setup_.self, what)});
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
                    [this](part_tag<schedule_part::dissolved>, auto& buckets) { dissolve(buckets); },
                    [this](part_tag<schedule_part::forget>, auto& ids) {
                      for (auto id : ids)
                        setup_.door->forget(id);
                    },
                    [this, &plan](part_tag<schedule_part::retract>, auto&) { apply_retractions(*plan); },
                    [this, &plan](part_tag<schedule_part::failures>, auto&) { apply_failures(*plan); },
                    [this, &plan](part_tag<schedule_part::ask>, auto&) { answer_questions(*plan); },
                    [this, &plan](part_tag<schedule_part::results>, auto&) { apply_results(*plan); },
                    [this, &plan](part_tag<schedule_part::bundles>, auto&) { run_bundles(*plan); },
                    [this](part_tag<schedule_part::buckets>, auto& buckets) { plan_buckets(buckets); },
                    [this](part_tag<schedule_part::joined>, std::int32_t last_rank) {
                      if (last_rank >= 0)
                        finish_join(last_rank);
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
  for (auto& one : plan.assignments) {
    auto named = by_name_.find(one.name);
    auto known = by_id_.find(one.id);
    if (named != by_name_.end()) {
      known = by_id_.insert_or_assign(one.id, std::move(named->second)).first;
      by_name_.erase(named);
    }
    if (known != by_id_.end())
      setup_.door->learn(one.id, *known->second, seat_for(one, known->second->signature));
  }
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

void worker_state::apply_retractions(const schedule& plan) {
  for (auto& one : plan.retract)
    retract(one);
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
  hold(by_name_, taken->name, std::move(taken));
  send(std::move(out));
}

void worker_state::apply_failures(const schedule& plan) {
  for (auto& one : plan.failures) {
    pending_ptr failed;
    if (auto named = by_name_.find(one.name); named != by_name_.end()) {
      failed = std::move(named->second);
      by_name_.erase(named);
    } else {
      // Rare enough for a look at every id.
      for (auto known = by_id_.begin(); known != by_id_.end() && !failed; ++known)
        if (known->second->name == one.name) {
          failed = std::move(known->second);
          by_id_.erase(known);
          break;
        }
    }
    if (failed)
      failed->claim_and_settle(phase::queued, one.reason);
  }
}

void worker_state::answer_questions(const schedule& plan) {
  requests out;
  for (auto id : plan.ask) {
    auto known = by_id_.find(id);
    if (known == by_id_.end())
      continue;
    auto operation = std::move(known->second);
    by_id_.erase(known);
    setup_.door->forget(id);
    out.full.push_back(full_request(*operation));
    hold(by_name_, operation->name, std::move(operation));
  }
  send(std::move(out));
}

void worker_state::finish_join(std::int32_t last_rank) {
  joined_ = false;
  for (auto position = by_name_.begin(); position != by_name_.end(); ++position)
    if (position->second->signature.operation == operation::join) {
      auto operation = std::move(position->second);
      by_name_.erase(position);
      operation->outcome.last_rank = last_rank;
      operation->claim_and_settle(phase::queued, {});
      return;
    }
}

// What all had asked for starts and ends; who asked here is told when that has come about on this member.
void worker_state::change_sets(schedule& plan) {
  pending_ptr asked;
  if (auto named = by_name_.find(std::string(set_change_name)); named != by_name_.end()) {
    asked = std::move(named->second);
    by_name_.erase(named);
  }
  self->send(setup_.sets, sets_changed{std::move(plan.sets), std::move(asked)});
}

// ---- bundles -------------------------------------------------------------------------------------

void worker_state::run_bundles(const schedule& plan) {
  const bundle_builder builder(setup_.rank, setup_.members, setup_.ranks);
  for (auto& one : plan.bundles) {
    std::vector<pending_ptr> operations;
    operations.reserve(one.entries.size());
    for (auto& entry : one.entries)
      operations.push_back(claim(entry.id, entry.name));
    auto job = builder.build(one, std::move(operations), joined_);
    if (!job) {
      self->send(setup_.member, generation_broken{job.error().text});
      return;
    }
    (*job)->home = setup_.lane;
    self->send(setup_.mover, std::make_shared<std::unique_ptr<lane_job>>(std::move(*job)));
  }
}

// The operation leaves the table: from here on only who runs it may settle it.
pending_ptr worker_state::claim(std::uint32_t id, const std::string& name) {
  pending_ptr found;
  if (id != 0) {
    if (auto known = by_id_.find(id); known != by_id_.end()) {
      found = std::move(known->second);
      by_id_.erase(known);
    }
  } else if (auto named = by_name_.find(name); named != by_name_.end()) {
    found = std::move(named->second);
    by_name_.erase(named);
  }
  if (found) {
    auto claimed = found->advance(phase::queued, phase::claimed);
    assert(claimed && "what the worker holds is queued");
    static_cast<void>(claimed);
  }
  return found;
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
    settle_all(over_);
    if (setup_.settled)
      setup_.settled();
  }
}

void worker_state::try_later() {
  if (!std::exchange(retrying_, true))
    self->delayed_send(self, std::chrono::microseconds(50), retry_atom::value);
}

void worker_state::settle_all(const error& why) {
  for (auto& [id, operation] : std::exchange(by_id_, {}))
    operation->claim_and_settle(phase::queued, why);
  for (auto& [name, operation] : std::exchange(by_name_, {}))
    operation->claim_and_settle(phase::queued, why);
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
