// The part of the set client that applies the leader's schedules, part by part in the order of schedule_order.hpp.
#include <string>
#include <utility>

#include "actors/interfaces/generation.hpp"
#include "actors/process_set/bundle_builder.hpp"
#include "actors/process_set/set_client.hpp"
#include "actors/process_set/set_client_requests.hpp"
#include "actors/submission/request_check.hpp"
#include "collectives/operation.hpp"
#include "messages/values/printable.hpp"
#include "messages/wire/schedule_order.hpp"

namespace farandole {

void set_client_state::follow(const envelope& message) {
  auto plan = decode_schedule(message, setup_.members);
  if (!plan) {
    self->send(setup_.member,
               generation_broken{"the leader's schedule was not understood: " + plan.error().text});
    return;
  }
  if (end_reason_)
    return;
  for_each_part(*plan,
                for_parts{
                    [this, &plan](part_tag<schedule_part::assignments>, auto&) { apply_assignments(*plan); },
                    [this](part_tag<schedule_part::dissolved>, auto& buckets) {
                      requests batch;
                      for (const auto bucket : buckets)
                        append(batch, accumulator_.dissolve(bucket));
                      send(std::move(batch));
                    },
                    [this](part_tag<schedule_part::forget>, auto& ids) {
                      for (auto id : ids)
                        setup_.queue->forget(id);
                    },
                    [this](part_tag<schedule_part::retract>, auto& rounds) {
                      for (const auto& round : rounds)
                        retract(round);
                    },
                    [this](part_tag<schedule_part::failures>, auto& failures) {
                      for (const auto& failure : failures)
                        fail(failure);
                    },
                    [this](part_tag<schedule_part::absent>, auto& names) { settle_without_result(names); },
                    [this, &plan](part_tag<schedule_part::ask>, auto&) { answer_questions(*plan); },
                    [this, &plan](part_tag<schedule_part::results>, auto&) { apply_results(*plan); },
                    [this, &plan](part_tag<schedule_part::bundles>, auto&) { run_bundles(*plan); },
                    [this](part_tag<schedule_part::buckets>, auto& buckets) {
                      requests batch;
                      for (const auto& planned : buckets)
                        append(batch, accumulator_.add(planned));
                      send(std::move(batch));
                    },
                    [this](part_tag<schedule_part::joined>, std::int32_t last_rank) {
                      if (last_rank < 0)
                        return;
                      joined_ = false;
                      if (setup_.recorder)
                        setup_.recorder->record(event_kind::joined, 0, 0, 0,
                                                static_cast<std::uint64_t>(last_rank));
                      if (auto join = operations_.take_join()) {
                        join->outcome.last_rank = last_rank;
                        join->claim_and_settle(phase::queued, {});
                      }
                    },
                    [this](part_tag<schedule_part::restarts>, auto& restarts) {
                      if (!restarts.empty())
                        self->send(setup_.sets, sets_restarted{std::move(restarts)});
                    },
                    [](part_tag<schedule_part::sets>, auto&) {}, // handled with `changed`
                    [this, &plan](part_tag<schedule_part::changed>, bool changed) {
                      if (changed)
                        change_sets(*plan);
                    },
                    [](part_tag<schedule_part::departed>, auto&) {}, // handled with `end`
                    [this, &plan](part_tag<schedule_part::end>, bool ends) {
                      if (ends)
                        end_in_order(*plan);
                    },
                });
}

// Handles the set's last schedule.
void set_client_state::end_in_order(const schedule& plan) {
  if (setup_.ended)
    return setup_.ended();
  departed_ = plan.departed.value_or(departed_member{});
  finish_generation();
}

void set_client_state::fail(const failure& failure) {
  // A withdrawn operation fails only where it was requested.
  if (failure.reason.kind != error_kind::aborted)
    setup_.queue->count_failure(failure.name);
  if (const auto failed = operations_.take_under_any_key(failure.name))
    failed->claim_and_settle(phase::queued, failure.reason);
}

void set_client_state::settle_without_result(const std::vector<std::string>& names) {
  for (const auto& name : names) {
    const auto operation = operations_.take(name);
    if (!operation)
      continue;
    if (!operation->absent) {
      const auto problem = printable_name(name) + " has no result, but this rank has contributed to it";
      operation->claim_and_settle(phase::queued, {error_kind::unknown, problem});
      self->send(setup_.member, generation_broken{problem});
      return;
    }
    operation->claim_and_settle_without_result();
  }
}

void set_client_state::apply_assignments(const schedule& plan) {
  for (auto& assignment : plan.assignments)
    if (const auto* pending = operations_.assign(assignment.id, assignment.name))
      setup_.queue->learn(assignment.id, *pending, slot_for(assignment, pending->signature));
}

std::shared_ptr<fast_path_slot> set_client_state::slot_for(const assignment& assignment,
                                                           const signature& own) {
  auto fast_path = assignment.cell >= 0 && setup_.fast_path ? setup_.fast_path() : nullptr;
  if (!fast_path)
    return nullptr;
  fast_path_task task;
  task.operation = own.operation;
  task.dtype = own.dtype;
  task.reduce_op = own.reduce_op;
  task.prescale = own.prescale;
  task.postscale = own.postscale;
  task.root = rank_in_set(own.root, setup_.ranks);
  task.bytes = static_cast<std::size_t>(element_count(own.shape)) * size_of(own.dtype);
  task.use = use_of_fast_path(own, task.bytes, setup_.fast_path_limit_bytes);
  if (task.use == fast_path_use::collective)
    task.bytes = farandole::shm_fast_path::collective_cell_bytes(static_cast<std::size_t>(setup_.members));
  auto cell = fast_path->open(assignment.id, assignment.cell,
                              farandole::shm_fast_path::footprint(assignment.cell_bytes), task);
  if (!cell) {
    self->send(setup_.member, generation_broken{"the fast path has no such cell: " + cell.error().text});
    return nullptr;
  }
  return std::make_shared<fast_path_slot>(std::move(fast_path), *cell, setup_.results);
}

// Takes this member's cell back if an operation waits on the fast path in exactly that round, and then requests the
// tensor from the leader in full.
void set_client_state::retract(fast_path_round round) {
  operation_state_ptr taken;
  if (setup_.queue->retract(round, taken) == submission_queue::attempt::busy) {
    retractions_.push_back(round);
    try_later();
    return;
  }
  if (!taken)
    return;
  requests batch;
  batch.full.push_back(full_request(*taken));
  operations_.add_by_name(std::move(taken));
  send(std::move(batch));
}

void set_client_state::answer_questions(const schedule& plan) {
  requests batch;
  for (auto id : plan.ask) {
    auto operation = operations_.take(id);
    if (!operation)
      continue;
    setup_.queue->forget(id);
    batch.full.push_back(full_request(*operation));
    operations_.add_by_name(std::move(operation));
  }
  send(std::move(batch));
}

// All members have requested the change, so the process-set manager carries it out. It settles the operation that
// requested the change here when the change is complete on this member.
void set_client_state::change_sets(schedule& plan) {
  self->send(setup_.sets, sets_changed{std::move(plan.sets), operations_.take(std::string(set_change_name))});
}

void set_client_state::run_bundles(const schedule& plan) {
  const bundle_builder builder(setup_.rank, setup_.members, setup_.ranks);
  for (auto& bundle : plan.bundles) {
    std::vector<operation_state_ptr> operations;
    operations.reserve(bundle.entries.size());
    for (auto& entry : bundle.entries)
      if (const auto& claimed = operations.emplace_back(operations_.claim(entry.id, entry.name)))
        claimed->record(event_kind::scheduled, claimed->recorded_operation(), bundle.sequence);
    auto task = builder.build(bundle, std::move(operations), joined_);
    if (!task) {
      self->send(setup_.member, generation_broken{task.error().text});
      return;
    }
    (*task)->target_lane = setup_.lane;
    if (bundle.ordered && setup_.launches)
      (*task)->turn = setup_.launches->take(setup_.self.set, bundle.after);
    self->send(setup_.connector, std::make_shared<std::unique_ptr<lane_task>>(std::move(*task)));
  }
}

} // namespace farandole
