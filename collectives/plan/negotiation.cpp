#include "collectives/plan/negotiation.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "collectives/operation.hpp"
#include "messages/printable.hpp"

namespace farandole {

namespace {

error breach_of(std::int32_t rank, const std::string& what) {
  return {error_kind::invalid_argument, "rank " + std::to_string(rank) + " broke the protocol: " + what};
}

} // namespace

negotiation::negotiation(const negotiation_options& options)
    : tally_(options.members), cache_(options.cache_capacity), board_(options.board),
      relayed_(options.members.size()) {
  if (options.keeps_sets)
    sets_.emplace(tally_.members());
  for (const auto& branch : options.branches) {
    auto mask = mask_of(tally_.ranks(), std::span(branch.ranks));
    assert(mask && "a relay speaks for members");
    relayed_.add(*mask);
    branches_.emplace(branch.relay, std::move(*mask));
  }
  if (!branches_.empty() && options.buckets > 0)
    planner_.emplace(planner_rules{.buckets = std::min(options.buckets, bucket_limit)});
}

verdict negotiation::receive(std::int32_t rank, const requests& what, std::chrono::nanoseconds now) {
  if (ended_)
    return {};
  const auto member = tally_.member_of(rank);
  step current{member.value_or(-1), now, what.ids.size() + what.full.size(), what.join, {}};
  if (!member) {
    current.out.breach = breach_of(rank, "it is not in this process set");
    current.out.broken_by = rank;
    return std::move(current.out);
  }
  cache_.mark();
  take_left(current, what.left);
  take_buckets(current, what.buckets);
  take_ids(current, what.ids);
  for (const auto& one : what.full)
    if (!current.out.breach)
      take_full(current, one);
  if (current.out.breach) {
    current.out.broken_by = rank;
    return std::move(current.out);
  }
  for (const auto& name : what.withdraw)
    take_withdrawal(current, name);
  if (what.join)
    take_join(current);
  if (what.change)
    take_change(current, *what.change);
  for (const auto& one : what.faults)
    if (!current.out.breach)
      take_fault(current, one);
  if (current.out.breach)
    current.out.broken_by = rank;
  if (what.leaves) {
    current.out.end = ended_ = true;
    current.out.departed = {rank, *what.leaves};
  }
  make_plans(current);
  return std::move(current.out);
}

verdict negotiation::end() {
  verdict last;
  last.end = !ended_;
  ended_ = true;
  return last;
}

// Only rows can say who is missing.
std::vector<stall> negotiation::stalled(std::chrono::nanoseconds now, std::chrono::nanoseconds limit) {
  for (auto& [id, one] : buckets_)
    if (!one.who.empty() && now - one.since > limit)
      spell_out(one);
  return tally_.stalled(now, limit);
}

// ---- what a member may send ---------------------------------------------------------------------

// All who leave a cell leave it in the same round: nobody can be further than the first who did not publish,
// or gave up (the round is then complete for no member). So the first word counts, and later ones find the id
// forgotten.
void negotiation::take_left(step& current, const std::vector<board_round>& left) {
  for (const auto& round : left) {
    const auto* tensor = cache_.find(round.id);
    if (!tensor || tensor->cell < 0)
      continue;
    current.out.retract.push_back(round);
    drop(current, *tensor);
  }
}

void negotiation::take_ids(step& current, const std::vector<std::uint32_t>& ids) {
  for (const auto id : ids) {
    auto* tensor = cache_.find(id);
    if (!tensor || tensor->cell >= 0)
      current.out.questions.push_back({tally_.rank_of(current.member), id});
    else
      count_known(current, *tensor);
  }
}

void negotiation::count_known(step& current, cached_tensor& tensor) {
  if (relayed_.has(static_cast<std::size_t>(current.member)))
    miss(current, tensor);
  if (tally_.withdrawn(tensor.row))
    turn_away(current, tensor.row, spelled_out(tensor, current.member));
  else if (tally_.add_known(tensor.row, current.member, current.now) == tally::count::complete)
    complete_known(current, tensor);
}

request negotiation::spelled_out(const cached_tensor& tensor, std::int32_t member) const {
  request result{tensor.name, tensor.signature, tensor.group, tensor.group_size};
  if (!tensor.first_dims.empty())
    result.signature.shape[0] = tensor.first_dims[static_cast<std::size_t>(member)];
  return result;
}

void negotiation::take_full(step& current, const request& what) {
  const auto rank = tally_.rank_of(current.member);
  if (what.signature.operation == operation::join) {
    current.out.breach = breach_of(rank, printable_name(what.name) + " asks to join by name");
    return;
  }
  const auto known = tally_.find(what.name);
  if (auto* tensor = known ? cache_.find(tally_.id(*known)) : nullptr) {
    if (tensor->cell >= 0) {
      current.out.breach =
          breach_of(rank, printable_name(what.name) + " is on the board, and its cell was not left");
      return;
    }
    if (tensor->matches(what, current.member)) {
      tensor->board_refused |= what.seatless;
      count_known(current, *tensor);
      return;
    }
    if (tally_.asked(*known, current.member) && !tally_.withdrawn(*known)) {
      current.out.breach =
          breach_of(rank, printable_name(what.name) + " was asked for twice at once, differently");
      return;
    }
    current.out.forget.push_back(tensor->id);
    drop(current, *tensor);
  }
  const auto row = tally_.open(what.name);
  if (tally_.withdrawn(row)) {
    turn_away(current, row, what);
    return;
  }
  switch (tally_.add(row, current.member, what, current.now)) {
  case tally::count::waiting:
    break;
  case tally::count::complete:
    complete_written(current, row);
    break;
  case tally::count::repeated:
    if (!tally_.same(row, current.member, what))
      current.out.breach =
          breach_of(rank, printable_name(what.name) + " was asked for twice at once, differently");
  }
}

void negotiation::take_withdrawal(step& current, const std::string& name) {
  const auto row = tally_.find(name);
  if (const auto* tensor = row ? cache_.find(tally_.id(*row)) : nullptr)
    miss(current, *tensor);
  // What is not pending here has been scheduled, or has failed.
  if (!row || !tally_.asked(*row, current.member) || tally_.withdrawn(*row))
    return;
  const auto by = tally_.rank_of(current.member);
  auto claims = claims_of(*row);
  for (const auto rank : tally_.withdraw(*row, by))
    refuse(current, rank, *row);
  leave_groups(current, claims);
}

void negotiation::take_join(step& current) {
  if (tally_.has_joined(current.member))
    return;
  // It has left every cell it knows of; of the others it has not heard yet, so it has not published there.
  for (const auto id : std::exchange(boarded_, {})) {
    current.out.retract.push_back({id, 0});
    drop(current, *cache_.find(id));
  }
  for (auto& [id, one] : buckets_)
    spell_out(one);
  if (planner_)
    planner_->spoil();
  for (const auto row : tally_.join(current.member))
    complete(current, row);
  if (tally_.joined() < tally_.members())
    return;
  current.out.joined = tally_.rank_of(current.member);
  tally_.leave_join();
}

void negotiation::take_change(step& current, const set_change& what) {
  const auto rank = tally_.rank_of(current.member);
  if (!sets_) {
    current.out.breach = breach_of(rank, "it changes process sets in one of them");
    return;
  }
  auto answer = sets_->ask(rank, what);
  current.out.breach = std::move(answer.breach);
  current.out.changed = answer.decided && !answer.problem;
  current.out.sets = std::move(answer.events);
  if (answer.problem)
    current.out.failures.push_back({std::string(set_change_name), std::move(answer.problem)});
}

void negotiation::take_fault(step& current, const set_fault& what) {
  const auto rank = tally_.rank_of(current.member);
  if (!sets_) {
    current.out.breach = breach_of(rank, "it reports a fault in a process set that is not the global one");
    return;
  }
  auto recovery = sets_->failed(rank, what, current.now);
  if (recovery.breach)
    current.out.breach = std::move(recovery.breach);
  else
    current.out.restarts.push_back(std::move(recovery.restart));
}

// ---- taken back ---------------------------------------------------------------------------------

void negotiation::refuse(step& current, std::int32_t rank, tally::row_id row) {
  current.out.refusals.push_back(
      {rank,
       {tally_.name(row),
        {error_kind::aborted, printable_name(tally_.name(row)) + " was taken back by rank " +
                                  std::to_string(tally_.withdrawn_by(row)) +
                                  " before every rank had asked for it"}}});
}

void negotiation::turn_away(step& current, tally::row_id row, const request& what) {
  switch (tally_.add_known(row, current.member, current.now)) {
  case tally::count::repeated:
    tally_.keep_early(row, current.member, what);
    return;
  case tally::count::waiting:
    refuse(current, tally_.rank_of(current.member), row);
    return;
  case tally::count::complete:
    refuse(current, tally_.rank_of(current.member), row);
    complete(current, row);
  }
}

} // namespace farandole
