#include "collectives/plan/negotiation.hpp"

#include <utility>

#include "collectives/operation.hpp"
#include "collectives/plan/breach.hpp"
#include "messages/printable.hpp"

namespace farandole {

namespace {

// What a member hears that has asked for a tensor which another has taken back.
refusal taken_back(std::int32_t rank, tally::row_id row, const tally& rows) {
  const auto& name = rows.name(row);
  return {rank,
          {name,
           {error_kind::aborted, printable_name(name) + " was taken back by rank " +
                                     std::to_string(rows.withdrawn(row)->rank()) +
                                     " before every rank had asked for it"}}};
}

} // namespace

negotiation::negotiation(const negotiation_options& options)
    : tally_(options.members), branches_(options.members, options.branches),
      ids_(options.cache_capacity, options.board,
           bucket_coordinator(branches_.empty() ? 0 : options.buckets, branches_.relayed())) {
  if (options.keeps_sets)
    sets_.emplace(tally_.members().count());
}

verdict negotiation::receive(std::int32_t rank, const requests& message, std::chrono::nanoseconds now) {
  if (ended_)
    return {};
  const auto member = tally_.members().member_of(rank);
  negotiation_step step{member.value_or(-1), now, message.ids.size() + message.full.size(), message.join, {}};
  if (!member) {
    step.blame(rank, breach::not_a_member);
    return std::move(step.result);
  }
  ids_.begin_message();
  for (const auto& round : message.left)
    ids_.retract(round, tally_, step.result);
  take_buckets(step, message.buckets);
  take_ids(step, message.ids);
  for (const auto& asked : message.full)
    if (!step.result.breach)
      take_full(step, asked);
  if (step.result.breach) {
    step.result.broken_by = rank;
    return std::move(step.result);
  }
  for (const auto& name : message.withdraw)
    take_withdrawal(step, name);
  if (message.join)
    take_join(step);
  if (message.change)
    take_change(step, *message.change);
  for (const auto& fault : message.faults)
    if (!step.result.breach)
      take_fault(step, fault);
  if (step.result.breach)
    step.result.broken_by = rank;
  if (message.leaves) {
    step.result.end = ended_ = true;
    step.result.departed = {rank, *message.leaves};
  }
  plan_buckets(step);
  return std::move(step.result);
}

verdict negotiation::end() {
  verdict last;
  last.end = !ended_;
  ended_ = true;
  return last;
}

// Only rows can say who is missing.
std::vector<stall> negotiation::stalled(std::chrono::nanoseconds now, std::chrono::nanoseconds limit) {
  ids_.buckets().spell_out_late(tally_, now, limit);
  return tally_.stalled(now, limit);
}

// ---- what a member may send ---------------------------------------------------------------------

// Its ids are counted in rows.
void negotiation::take_buckets(negotiation_step& step, const std::vector<std::uint32_t>& buckets) {
  for (const auto bucket : buckets) {
    const auto* ids = ids_.buckets().find(bucket);
    if (!ids)
      return step.blame(tally_.members().rank_of(step.member), breach::unplanned_bucket);
    // The bucket may end while they are counted.
    take_ids(step, std::vector(*ids));
  }
}

void negotiation::take_ids(negotiation_step& step, const std::vector<std::uint32_t>& ids) {
  for (const auto id : ids) {
    auto* tensor = ids_.find(id);
    if (!tensor || tensor->cell >= 0)
      step.result.questions.push_back({tally_.members().rank_of(step.member), id});
    else
      count_known(step, *tensor);
  }
}

void negotiation::take_full(negotiation_step& step, const request& asked) {
  const auto rank = tally_.members().rank_of(step.member);
  if (asked.signature.operation == operation::join)
    return step.blame(rank, printable_name(asked.name) + " asks to join by name");
  const auto blame_for_two = [&] {
    step.blame(rank, printable_name(asked.name) + " was asked for twice at once, differently");
  };
  const auto known = tally_.find(asked.name);
  if (auto* tensor = known ? ids_.find(tally_.id(*known)) : nullptr) {
    if (tensor->cell >= 0)
      return step.blame(rank, printable_name(asked.name) + " is on the board, and its cell was not left");
    if (tensor->matches(asked, step.member)) {
      tensor->board_refused |= asked.seatless;
      count_known(step, *tensor);
      return;
    }
    if (tally_.asked().has(*known, step.member) && !tally_.withdrawn(*known))
      return blame_for_two();
    step.result.forget.push_back(tensor->id);
    ids_.forget(*tensor, tally_, step.result);
  }
  const auto row = tally_.open(asked.name);
  if (tally_.withdrawn(row)) {
    turn_away(step, row, asked);
    return;
  }
  switch (tally_.add(row, step.member, asked, step.now)) {
  case tally::count::waiting:
    break;
  case tally::count::complete:
    responses_.complete_written(row, tally_, ids_, step);
    break;
  case tally::count::repeated:
    if (const auto* written = tally_.written(row);
        !written || written->signature_of(step.member) != asked.signature)
      blame_for_two();
  }
}

void negotiation::take_withdrawal(negotiation_step& step, const std::string& name) {
  const auto row = tally_.find(name);
  if (const auto* tensor = row ? ids_.find(tally_.id(*row)) : nullptr)
    ids_.miss(*tensor, tally_, step.result);
  // What is not pending here has been scheduled, or has failed.
  if (!row || !tally_.asked().has(*row, step.member) || tally_.withdrawn(*row))
    return;
  for (const auto rank : tally_.withdraw(*row, tally_.members().rank_of(step.member)))
    step.result.refusals.push_back(taken_back(rank, *row, tally_));
  responses_.withdrawn(*row, tally_, ids_, step);
}

void negotiation::take_join(negotiation_step& step) {
  if (tally_.joined().has(step.member))
    return;
  ids_.retract_all(tally_, step.result);
  ids_.buckets().interrupt(tally_);
  for (const auto row : tally_.join(step.member))
    complete(step, row);
  if (tally_.joined().count() < tally_.members().count())
    return;
  step.result.joined = tally_.members().rank_of(step.member);
  tally_.leave_join();
}

void negotiation::take_change(negotiation_step& step, const set_change& change) {
  const auto rank = tally_.members().rank_of(step.member);
  if (!sets_)
    return step.blame(rank, "it changes process sets in one of them");
  auto answer = sets_->ask(rank, change);
  step.result.breach = std::move(answer.breach);
  step.result.changed = answer.decided && !answer.problem;
  step.result.sets = std::move(answer.events);
  if (answer.problem)
    step.result.failures.push_back({std::string(set_change_name), std::move(answer.problem)});
}

void negotiation::take_fault(negotiation_step& step, const set_fault& fault) {
  const auto rank = tally_.members().rank_of(step.member);
  if (!sets_)
    return step.blame(rank, "it reports a fault in a process set that is not the global one");
  auto recovery = sets_->failed(rank, fault, step.now);
  if (recovery.breach)
    step.result.breach = std::move(recovery.breach);
  else
    step.result.restarts.push_back(std::move(recovery.restart));
}

// ---- counted ------------------------------------------------------------------------------------

void negotiation::count_known(negotiation_step& step, cached_tensor& tensor) {
  if (branches_.relayed().has(static_cast<std::size_t>(step.member)))
    ids_.miss(tensor, tally_, step.result);
  if (tally_.withdrawn(tensor.row))
    turn_away(step, tensor.row, tensor.request_of(step.member));
  else if (tally_.add_known(tensor.row, step.member, step.now) == tally::count::complete)
    responses_.complete_known(tensor, tally_, ids_, step);
}

// The row was withdrawn before this member asked.
void negotiation::turn_away(negotiation_step& step, tally::row_id row, const request& asked) {
  const auto counted = tally_.add_known(row, step.member, step.now);
  if (counted == tally::count::repeated) {
    tally_.withdrawn(row)->keep_early(step.member, asked);
    return;
  }
  step.result.refusals.push_back(taken_back(tally_.members().rank_of(step.member), row, tally_));
  if (counted == tally::count::complete)
    complete(step, row);
}

void negotiation::complete(negotiation_step& step, tally::row_id row) {
  if (tally_.withdrawn(row)) {
    auto early = tally_.withdrawn(row)->take_early();
    tally_.clear(row);
    const auto sender = step.member;
    for (const auto& [member, asked] : early) {
      step.member = member;
      take_full(step, asked);
    }
    step.member = sender;
  } else if (auto* tensor = ids_.find(tally_.id(row))) {
    responses_.complete_known(*tensor, tally_, ids_, step);
  } else {
    responses_.complete_written(row, tally_, ids_, step);
  }
}

void negotiation::plan_buckets(negotiation_step& step) {
  if (tally_.joined().none() && !ended_)
    ids_.plan(step.result);
}

} // namespace farandole
