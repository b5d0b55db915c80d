#include "collectives/plan/negotiation.hpp"

#include <cassert>
#include <utility>

#include "collectives/operation.hpp"

namespace farandole {

namespace {

error breach_of(std::int32_t rank, const std::string& what) {
  return {error_kind::invalid_argument, "rank " + std::to_string(rank) + " broke the protocol: " + what};
}

// All that a bundle needs to know of a tensor. False when its elements cannot be counted.
bool describe_ready(const signature& what, const std::vector<std::int64_t>& first_dims, ready_tensor& out) {
  out.operation = what.operation;
  out.dtype = what.dtype;
  out.reduce_op = what.reduce_op;
  out.root = what.root;
  out.prescale = what.prescale;
  out.postscale = what.postscale;
  out.elements = element_count(what.shape);
  if (row_of(what.operation).first_dim_free) {
    const auto row_elements = elements_of_row(what.shape);
    // Only a gather's rows all come to everybody; who sends what in an alltoall is told between the members.
    if (what.operation == operation::allgather)
      out.details = std::make_shared<const ready_details>(ready_details{{}, first_dims, row_elements});
    std::int64_t rows = 0;
    for (auto extent : first_dims)
      if (__builtin_add_overflow(rows, extent, &rows))
        return false;
    if (__builtin_mul_overflow(rows, row_elements, &out.elements))
      return false;
  }
  return !__builtin_mul_overflow(out.elements, static_cast<std::int64_t>(size_of(what.dtype)), &out.bytes);
}

} // namespace

negotiation::negotiation(const negotiation_options& options)
    : tally_(options.members), cache_(options.cache_capacity), board_(options.board) {
  if (options.keeps_sets)
    sets_.emplace(tally_.members());
  for (const auto& branch : options.branches) {
    auto mask = mask_of(tally_.ranks(), std::span(branch.ranks));
    assert(mask && "a relay speaks for members");
    branches_.emplace(branch.relay, std::move(*mask));
  }
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
  if (what.shutdown)
    current.out.end = ended_ = true;
  return std::move(current.out);
}

verdict negotiation::end() {
  verdict last;
  last.end = !ended_;
  ended_ = true;
  return last;
}

std::vector<stall> negotiation::stalled(std::chrono::nanoseconds now, std::chrono::nanoseconds limit) const {
  return tally_.stalled(now, limit);
}

// ---- what a member may send ---------------------------------------------------------------------

// All who leave a cell leave it in the same round: nobody can be further than the first who did not publish.
// So the first word counts, and later ones find the id forgotten.
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
    current.out.breach = breach_of(rank, what.name + " asks to join by name");
    return;
  }
  const auto known = tally_.find(what.name);
  if (auto* tensor = known ? cache_.find(tally_.id(*known)) : nullptr) {
    if (tensor->cell >= 0) {
      current.out.breach = breach_of(rank, what.name + " is on the board, and its cell was not left");
      return;
    }
    if (tensor->matches(what, current.member)) {
      count_known(current, *tensor);
      return;
    }
    if (tally_.asked(*known, current.member) && !tally_.withdrawn(*known)) {
      current.out.breach = breach_of(rank, what.name + " was asked for twice at once, differently");
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
      current.out.breach = breach_of(rank, what.name + " was asked for twice at once, differently");
  }
}

void negotiation::take_withdrawal(step& current, const std::string& name) {
  const auto row = tally_.find(name);
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
  current.out.refusals.push_back({rank,
                                  {tally_.name(row),
                                   {error_kind::aborted, tally_.name(row) + " was taken back by rank " +
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

// ---- complete rows ------------------------------------------------------------------------------

void negotiation::complete(step& current, tally::row_id row) {
  if (tally_.withdrawn(row)) {
    auto early = tally_.take_early(row);
    tally_.clear(row);
    const auto sender = current.member;
    for (const auto& [member, what] : early) {
      current.member = member;
      take_full(current, what);
    }
    current.member = sender;
  } else if (auto* tensor = cache_.find(tally_.id(row))) {
    complete_known(current, *tensor);
  } else {
    complete_written(current, row);
  }
}

void negotiation::complete_known(step& current, cached_tensor& tensor) {
  if (tally_.joined() > 0 && !row_of(tensor.signature.operation).takes_zeros) {
    fail(current, tensor.row, tally_.disagreement(tensor.row, &tensor.signature));
    return;
  }
  tally_.clear(tensor.row);
  cache_.touch(tensor);
  ++tensor.uses;
  // Zeros stand in for who has joined, and nobody can do that on the board.
  if (!tensor.board_refused && tensor.group == 0 && tally_.joined() == 0 && !current.joins)
    grant(current, tensor);
  if (current.out.ready.empty())
    current.out.ready.reserve(current.expected);
  if (tensor.group == 0)
    current.out.ready.push_back(tensor.as_ready);
  else
    hand_on(current, ready_tensor(tensor.as_ready), tensor.group_size);
}

void negotiation::complete_written(step& current, tally::row_id row) {
  if (auto problem = tally_.disagreement(row)) {
    fail(current, row, std::move(problem));
    return;
  }
  cached_tensor tensor;
  tensor.row = row;
  tensor.name = tally_.name(row);
  tensor.signature = tally_.reference(row);
  tensor.first_dims = tally_.first_dims(row);
  if (!tensor.first_dims.empty())
    tensor.signature.shape[0] = tensor.first_dims[0];
  tensor.uses = 1;
  if (!describe_ready(tensor.signature, tensor.first_dims, tensor.as_ready)) {
    fail(current, row,
         {error_kind::precondition,
          tensor.name + ": the ranks' parts together hold more than can be counted"});
    return;
  }
  // Ranks that do not agree on its company share none.
  const auto claims = claims_of(row);
  if (claims.size() == 1) {
    tensor.group = tensor.as_ready.group = claims[0].group;
    tensor.group_size = claims[0].size;
  }
  auto ready = tensor.as_ready;
  ready.id = give_id(current, row, tensor);
  if (ready.id == 0)
    ready = by_name(std::move(ready), tensor.name);
  tally_.clear(row);
  if (tensor.group != 0) {
    hand_on(current, std::move(ready), tensor.group_size);
    return;
  }
  current.out.ready.push_back(std::move(ready));
  leave_groups(current, claims);
}

// While it waits for its company its id must not be forgotten: members have it pending under that.
void negotiation::hand_on(step& current, ready_tensor&& tensor, std::uint32_t group_size) {
  if (tensor.id != 0)
    cache_.pin(*cache_.find(tensor.id));
  const auto first = current.out.ready.size();
  const auto group = tensor.group;
  groups_.ready(group, group_size, std::move(tensor), current.out.ready);
  release(current, first);
}

void negotiation::leave_groups(step& current, const std::vector<tally::group_claim>& claims) {
  const auto first = current.out.ready.size();
  for (const auto& claim : claims)
    if (claim.group != 0)
      groups_.gone(claim.group, claim.size, current.out.ready);
  release(current, first);
}

void negotiation::release(step& current, std::size_t first) {
  for (auto i = first; i < current.out.ready.size(); ++i)
    if (const auto* tensor = cache_.find(current.out.ready[i].id))
      cache_.unpin(*tensor);
}

void negotiation::fail(step& current, tally::row_id row, error reason) {
  assert(reason);
  const auto claims = claims_of(row);
  current.out.failures.push_back({tally_.name(row), std::move(reason)});
  tally_.clear(row);
  leave_groups(current, claims);
}

std::vector<tally::group_claim> negotiation::claims_of(tally::row_id row) {
  if (tally_.written(row))
    return tally_.groups(row);
  const auto* tensor = cache_.find(tally_.id(row));
  assert(tensor);
  return {{tensor->group, tensor->group_size}};
}

// ---- ids ----------------------------------------------------------------------------------------

std::uint32_t negotiation::give_id(step& current, tally::row_id row, const cached_tensor& tensor) {
  // Who has joined brought no signature, so it could not use the id.
  if (!row_of(tensor.signature.operation).cacheable || tally_.joined() > 0)
    return 0;
  std::vector<cached_tensor> evicted;
  const auto* kept = cache_.insert(cached_tensor(tensor), evicted);
  for (const auto& old : evicted) {
    current.out.forget.push_back(old.id);
    forgotten(current, old);
  }
  if (!kept)
    return 0;
  tally_.tie(row, kept->id);
  current.out.assignments.push_back({kept->id, kept->name, -1, 0, kept->signature});
  return kept->id;
}

void negotiation::grant(step& current, cached_tensor& tensor) {
  const auto cell = board_.grant(tensor.signature, tensor.as_ready.bytes, tensor.uses);
  if (!cell) {
    // What is refused once it has come again is refused for good: limits stay and the area only fills up.
    tensor.board_refused = tensor.uses > 1;
    return;
  }
  tensor.cell = *cell;
  boarded_.push_back(tensor.id);
  cache_.seat(tensor);
  current.out.assignments.push_back({tensor.id, tensor.name, tensor.cell,
                                     static_cast<std::uint32_t>(tensor.as_ready.bytes), tensor.signature});
}

void negotiation::drop(step& current, const cached_tensor& tensor) {
  std::erase(boarded_, tensor.id);
  forgotten(current, cache_.forget(tensor.id));
}

// Who waits under the id asks again in full: then it, too, knows the tensor by its name when the next id
// comes.
void negotiation::forgotten(step& current, const cached_tensor& old) {
  for (const auto rank : tally_.take_out(old.row))
    current.out.questions.push_back({rank, old.id});
  tally_.tie(old.row, 0);
}

} // namespace farandole
