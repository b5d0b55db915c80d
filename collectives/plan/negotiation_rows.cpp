// A row that all members have filled: it fails, or becomes a tensor that is ready, alone or with its group;
// and the ids and cells by which members may speak of it from then on.
#include <utility>

#include "collectives/operation.hpp"
#include "collectives/plan/negotiation.hpp"
#include "messages/printable.hpp"

namespace farandole {

namespace {

// All that a bundle needs to know of a tensor. False when its elements cannot be counted.
bool describe_ready(const signature& what, const std::vector<std::int64_t>& first_dims, ready_tensor& out) {
  out.operation = what.operation;
  out.dtype = what.dtype;
  out.reduce_op = what.reduce_op;
  out.root = what.root;
  out.prescale = what.prescale;
  out.postscale = what.postscale;
  out.elements = element_count(what.shape);
  if (row_of(what.operation).first_dim_free()) {
    const auto row_elements = elements_of_row(what.shape);
    // Only a gather's rows all come to everybody; who sends what in an alltoall is told between the members.
    if (row_of(what.operation).rows == row_use::gathered)
      out.details = std::make_shared<const ready_details>(ready_details{{}, first_dims, row_elements});
    std::int64_t rows = 0;
    for (auto extent : first_dims)
      if (__builtin_add_overflow(rows, extent, &rows))
        return false;
    // Members count rows as if each held an element, also where it holds none.
    if (std::int64_t bytes = 0;
        __builtin_mul_overflow(rows, static_cast<std::int64_t>(size_of(what.dtype)), &bytes) ||
        __builtin_mul_overflow(rows, row_elements, &out.elements))
      return false;
  }
  return !__builtin_mul_overflow(out.elements, static_cast<std::int64_t>(size_of(what.dtype)), &out.bytes);
}

} // namespace

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
  if (tally_.joined() > 0)
    if (auto problem = tally_.disagreement(tensor.row, &tensor.signature)) {
      fail(current, tensor.row, std::move(problem));
      return;
    }
  watch(tensor, tally_.since(tensor.row), current);
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
  tensor.board_refused = tally_.seatless(row);
  if (!describe_ready(tensor.signature, tensor.first_dims, tensor.as_ready)) {
    fail(current, row,
         {error_kind::precondition,
          printable_name(tensor.name) + ": the ranks' parts together hold more than can be counted"});
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
  else
    watch(*cache_.find(ready.id), tally_.since(row), current);
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
    tensor.board_refused = true;
    return;
  }
  leave_bucket(current, tensor);
  tensor.cell = cell->offset;
  boarded_.push_back(tensor.id);
  cache_.seat(tensor);
  current.out.assignments.push_back(
      {tensor.id, tensor.name, tensor.cell, static_cast<std::uint32_t>(cell->bytes), tensor.signature});
}

void negotiation::drop(step& current, const cached_tensor& tensor) {
  std::erase(boarded_, tensor.id);
  forgotten(current, cache_.forget(tensor.id));
}

// Who waits under the id asks again in full: then it, too, knows the tensor by its name when the next id
// comes.
void negotiation::forgotten(step& current, const cached_tensor& old) {
  leave_bucket(current, old);
  for (const auto rank : tally_.take_out(old.row))
    current.out.questions.push_back({rank, old.id});
  tally_.tie(old.row, 0);
}

} // namespace farandole
