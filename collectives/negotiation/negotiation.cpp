#include "collectives/negotiation/negotiation.hpp"

#include <utility>

#include "collectives/operation.hpp"
#include "messages/values/breach.hpp"
#include "messages/values/printable.hpp"

namespace farandole {

namespace {

// The failure for a member that has requested a tensor which the member of rank `culprit` has withdrawn.
refusal taken_back(std::int32_t rank, const std::string& name, std::int32_t culprit) {
  return {rank,
          {name,
           {error_kind::aborted, printable_name(name) + " was taken back by rank " + std::to_string(culprit) +
                                     " before every rank had asked for it"}}};
}

} // namespace

negotiation::negotiation(const negotiation_options& options)
    : request_table_(options.members), branches_(options.members, options.branches),
      ids_(options.cache_capacity, options.fast_path,
           bucket_coordinator(branches_.empty() ? 0 : options.buckets, branches_.relayed())) {
  if (options.keeps_sets)
    sets_.emplace(request_table_.members().count());
}

negotiation_result negotiation::receive(std::int32_t rank, const requests& message,
                                        std::chrono::nanoseconds current_time) {
  if (ended_)
    return {};
  const auto member = request_table_.members().member_of(rank);
  negotiation_step step{
      member.value_or(-1), current_time, message.ids.size() + message.full.size(), message.join, {}};
  if (!member) {
    step.blame(rank, breach::not_a_member);
    return std::move(step.result);
  }
  ids_.begin_message();
  for (const auto& round : message.left)
    ids_.retract(round, request_table_, step.result);
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

negotiation_result negotiation::end() {
  negotiation_result last;
  last.end = !ended_;
  ended_ = true;
  return last;
}

// Late requests for buckets are moved into rows first, because only rows record which members are missing.
std::vector<stalled_tensor> negotiation::stalled(std::chrono::nanoseconds current_time,
                                                 std::chrono::nanoseconds limit) {
  ids_.buckets().spell_out_late(request_table_, current_time, limit);
  return request_table_.stalled(current_time, limit);
}

// ---- what a member may send ---------------------------------------------------------------------

// Counts a member's request for a bucket in the rows of its ids.
void negotiation::take_buckets(negotiation_step& step, const std::vector<std::uint32_t>& buckets) {
  for (const auto bucket : buckets) {
    const auto* ids = ids_.buckets().find(bucket);
    if (!ids)
      return step.blame(request_table_.members().rank_of(step.member), breach::unplanned_bucket);
    // The ids are copied: the bucket may be dissolved while they are counted.
    take_ids(step, std::vector(*ids));
  }
}

void negotiation::take_ids(negotiation_step& step, const std::vector<std::uint32_t>& ids) {
  for (const auto id : ids) {
    auto* tensor = ids_.find(id);
    if (!tensor || tensor->cell >= 0)
      step.result.questions.push_back({request_table_.members().rank_of(step.member), id});
    else
      count_known(step, *tensor);
  }
}

void negotiation::take_full(negotiation_step& step, const request& asked) {
  const auto rank = request_table_.members().rank_of(step.member);
  if (asked.signature.operation == operation::join)
    return step.blame(rank, printable_name(asked.name) + " asks to join by name");
  const auto blame_for_two = [&] {
    step.blame(rank, printable_name(asked.name) + " was asked for twice at once, differently");
  };
  const auto row_id = request_table_.find(asked.name);
  if (auto* tensor = row_id ? ids_.find(request_table_.id(*row_id)) : nullptr) {
    if (tensor->cell >= 0)
      return step.blame(rank, printable_name(asked.name) + " is on the fast path, and its cell was not left");
    if (tensor->matches(asked, step.member)) {
      tensor->fast_path_refused |= asked.no_fast_path;
      count_known(step, *tensor);
      return;
    }
    if (request_table_.asked().has(*row_id, step.member) && !request_table_.withdrawn(*row_id))
      return blame_for_two();
    step.result.forget.push_back(tensor->id);
    ids_.forget(*tensor, request_table_, step.result);
  }
  const auto row = request_table_.open(asked.name);
  if (request_table_.withdrawn(row)) {
    turn_away(step, row, asked);
    return;
  }
  switch (request_table_.add(row, step.member, asked, step.current_time)) {
  case request_table::count::waiting:
    break;
  case request_table::count::complete:
    responses_.complete_written(row, request_table_, ids_, step);
    break;
  case request_table::count::repeated:
    if (const auto* written = request_table_.written(row);
        !written || written->signature_of(step.member) != asked.signature)
      blame_for_two();
  }
}

void negotiation::take_withdrawal(negotiation_step& step, const std::string& name) {
  const auto row = request_table_.find(name);
  if (const auto* tensor = row ? ids_.find(request_table_.id(*row)) : nullptr)
    ids_.miss(*tensor, request_table_, step.result);
  // A tensor that is not pending has been scheduled or has failed, so there is nothing to withdraw.
  if (!row || !request_table_.asked().has(*row, step.member))
    return;
  const auto culprit = request_table_.members().rank_of(step.member);
  if (auto* earlier = request_table_.withdrawn(*row)) {
    if (earlier->drop_early(step.member))
      step.result.refusals.push_back(taken_back(culprit, name, culprit));
    return;
  }
  for (const auto rank : request_table_.withdraw(*row, culprit))
    step.result.refusals.push_back(taken_back(rank, name, culprit));
  responses_.withdrawn(*row, request_table_, ids_, step);
}

void negotiation::take_join(negotiation_step& step) {
  if (request_table_.joined().has(step.member))
    return;
  ids_.retract_all(request_table_, step.result);
  ids_.buckets().interrupt(request_table_);
  for (const auto row : request_table_.join(step.member))
    complete(step, row);
  if (request_table_.joined().count() < request_table_.members().count())
    return;
  step.result.joined = request_table_.members().rank_of(step.member);
  request_table_.leave_join();
}

void negotiation::take_change(negotiation_step& step, const set_change& change) {
  const auto rank = request_table_.members().rank_of(step.member);
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
  const auto rank = request_table_.members().rank_of(step.member);
  if (!sets_)
    return step.blame(rank, "it reports a fault in a process set that is not the global one");
  auto recovery = sets_->failed(rank, fault, step.current_time);
  if (recovery.breach)
    step.result.breach = std::move(recovery.breach);
  else
    step.result.restarts.push_back(std::move(recovery.restart));
}

// ---- counted ------------------------------------------------------------------------------------

void negotiation::count_known(negotiation_step& step, cached_tensor& tensor) {
  if (branches_.relayed().has(static_cast<std::size_t>(step.member)))
    ids_.miss(tensor, request_table_, step.result);
  if (request_table_.withdrawn(tensor.row))
    turn_away(step, tensor.row, tensor.request_of(step.member));
  else if (request_table_.add_known(tensor.row, step.member, step.current_time) ==
           request_table::count::complete)
    responses_.complete_known(tensor, request_table_, ids_, step);
}

// Refuses a request for a row that was withdrawn before. If the member asks again after its refusal, its request
// is kept until the row ends.
void negotiation::turn_away(negotiation_step& step, request_table::row_id row, const request& asked) {
  const auto counted = request_table_.add_known(row, step.member, step.current_time);
  if (counted == request_table::count::repeated) {
    request_table_.withdrawn(row)->keep_early(step.member, asked);
    return;
  }
  step.result.refusals.push_back(taken_back(request_table_.members().rank_of(step.member),
                                            request_table_.name(row), request_table_.withdrawn(row)->rank()));
  if (counted == request_table::count::complete)
    complete(step, row);
}

void negotiation::complete(negotiation_step& step, request_table::row_id row) {
  if (request_table_.withdrawn(row)) {
    auto early = request_table_.withdrawn(row)->take_early();
    request_table_.clear(row);
    const auto sender = step.member;
    for (const auto& [member, asked] : early) {
      step.member = member;
      take_full(step, asked);
    }
    step.member = sender;
  } else if (auto* tensor = ids_.find(request_table_.id(row))) {
    responses_.complete_known(*tensor, request_table_, ids_, step);
  } else {
    responses_.complete_written(row, request_table_, ids_, step);
  }
}

void negotiation::plan_buckets(negotiation_step& step) {
  if (request_table_.joined().none() && !ended_)
    ids_.plan(step.result);
}

} // namespace farandole
