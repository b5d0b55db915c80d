#include "collectives/negotiation/response_builder.hpp"

#include <cassert>
#include <memory>
#include <span>
#include <utility>

#include "collectives/operation.hpp"
#include "messages/values/printable.hpp"

namespace farandole {

namespace {

// Sets the fields of a tensor that a bundle needs. False if the number of elements or bytes overflows.
bool describe_ready(const cached_tensor& tensor, ready_tensor& result) {
  const auto& asked = tensor.signature;
  const auto& first_dims = tensor.first_dims;
  result.operation = asked.operation;
  result.dtype = asked.dtype;
  result.reduce_op = asked.reduce_op;
  result.root = asked.root;
  result.prescale = asked.prescale;
  result.postscale = asked.postscale;
  result.memory = asked.memory;
  result.elements = element_count(asked.shape);
  ready_details details;
  details.devices = tensor.devices;
  if (row_of(asked.operation).first_dim_free()) {
    const auto row_elements = elements_of_row(asked.shape);
    // Only an allgather delivers all rows to every member. In an alltoall the members exchange their row counts
    // themselves.
    if (row_of(asked.operation).rows == row_use::gathered) {
      details.first_dims = first_dims;
      details.row_elements = row_elements;
    }
    std::int64_t rows = 0;
    for (auto extent : first_dims)
      if (__builtin_add_overflow(rows, extent, &rows))
        return false;
    // Members compute the size of the rows as if each held at least one element, so this must not overflow.
    if (std::int64_t bytes = 0;
        __builtin_mul_overflow(rows, static_cast<std::int64_t>(size_of(asked.dtype)), &bytes) ||
        __builtin_mul_overflow(rows, row_elements, &result.elements))
      return false;
  }
  if (details != ready_details{})
    result.details = std::make_shared<const ready_details>(std::move(details));
  return !__builtin_mul_overflow(result.elements, static_cast<std::int64_t>(size_of(asked.dtype)),
                                 &result.bytes);
}

void note_first_request(ready_tensor& tensor, std::chrono::nanoseconds since, std::int32_t rank) {
  tensor.first_request = since;
  tensor.first_rank = rank;
}

// The tensor that the full requests in a row describe; all of them agree.
cached_tensor written_tensor(request_table::row_id row, const request_table& rows) {
  const auto& written = *rows.written(row);
  cached_tensor tensor;
  tensor.row = row;
  tensor.name = rows.name(row);
  tensor.signature = written.reference();
  tensor.first_dims = written.first_dims();
  // A member may be absent with zeros on a device, while others gather rows in host memory.
  if (tensor.signature.memory == memory_kind::device)
    tensor.devices = written.devices();
  if (!tensor.first_dims.empty())
    tensor.signature.shape[0] = tensor.first_dims[0];
  tensor.uses = 1;
  tensor.fast_path_refused = written.no_fast_path();
  return tensor;
}

// The groups that members have named for the tensor of a row.
std::vector<group_claim> claims_of(request_table::row_id row, const request_table& rows, id_registry& ids) {
  if (const auto* written = rows.written(row))
    return written->groups();
  const auto* tensor = ids.find(rows.id(row));
  assert(tensor);
  return {{tensor->group, tensor->group_size}};
}

} // namespace

void response_builder::complete_known(cached_tensor& tensor, request_table& rows, id_registry& ids,
                                      negotiation_step& step) {
  if (!rows.joined().none())
    if (auto problem = rows.disagreement(tensor.row, &tensor.signature)) {
      fail(tensor.row, std::move(problem), rows, ids, step);
      return;
    }
  const auto since = rows.since(tensor.row);
  const auto first_rank = rows.first_rank(tensor.row);
  rows.clear(tensor.row);
  ids.use(tensor, since, step.current_time);
  // Zeros replace the tensors of joined members, which is not possible on the fast path.
  if (rows.joined().none() && !step.joins)
    ids.grant(tensor, rows, step.result);
  auto& ready = step.result.ready;
  if (ready.empty())
    ready.reserve(step.expected);
  if (tensor.group == 0) {
    note_first_request(ready.emplace_back(tensor.as_ready), since, first_rank);
    return;
  }
  const auto first = ready.size();
  const auto group_size = tensor.group_size;
  ready_tensor grouped(tensor.as_ready);
  note_first_request(grouped, since, first_rank);
  hand_on(std::move(grouped), group_size, ids, step);
  if (rows.joined().none() && !step.joins && ready.size() - first == group_size)
    ids.grant_group(std::span(ready).subspan(first), rows, step.result);
}

void response_builder::complete_written(request_table::row_id row, request_table& rows, id_registry& ids,
                                        negotiation_step& step) {
  if (rows.written(row)->all_absent()) {
    step.result.absent.push_back(rows.name(row));
    drop(row, rows, ids, step);
    return;
  }
  if (auto problem = rows.disagreement(row)) {
    fail(row, std::move(problem), rows, ids, step);
    return;
  }
  auto tensor = written_tensor(row, rows);
  if (!describe_ready(tensor, tensor.as_ready)) {
    fail(row,
         {error_kind::precondition,
          printable_name(tensor.name) + ": the ranks' parts together hold more than can be counted"},
         rows, ids, step);
    return;
  }
  // If the ranks disagree on the group, the tensor is in none. It gets no id: each rank would ask by it for the tensor
  // in its own group, whose other tensors wait for this one.
  const auto claims = claims_of(row, rows, ids);
  const bool is_same_for_all = claims.size() == 1 && !rows.written(row)->any_absent();
  if (claims.size() == 1) {
    tensor.group = tensor.as_ready.group = claims[0].group;
    tensor.group_size = claims[0].size;
  }
  auto ready = tensor.as_ready;
  ready.id = is_same_for_all ? ids.assign(tensor, rows, step.current_time, step.result) : 0;
  if (ready.id == 0)
    ready = by_name(std::move(ready), tensor.name);
  note_first_request(ready, rows.since(row), rows.first_rank(row));
  rows.clear(row);
  if (tensor.group != 0) {
    hand_on(std::move(ready), tensor.group_size, ids, step);
    return;
  }
  step.result.ready.push_back(std::move(ready));
  leave_groups(claims, ids, step);
}

void response_builder::fail(request_table::row_id row, error reason, request_table& rows, id_registry& ids,
                            negotiation_step& step) {
  assert(reason);
  step.result.failures.push_back({rows.name(row), std::move(reason)});
  drop(row, rows, ids, step);
}

void response_builder::drop(request_table::row_id row, request_table& rows, id_registry& ids,
                            negotiation_step& step) {
  const auto claims = claims_of(row, rows, ids);
  rows.clear(row);
  leave_groups(claims, ids, step);
}

void response_builder::withdrawn(request_table::row_id row, const request_table& rows, id_registry& ids,
                                 negotiation_step& step) {
  leave_groups(claims_of(row, rows, ids), ids, step);
}

// While the tensor waits for its group, its id must not be evicted: members have an operation pending under it.
void response_builder::hand_on(ready_tensor&& tensor, std::uint32_t group_size, id_registry& ids,
                               negotiation_step& step) {
  if (tensor.id != 0)
    ids.pin(tensor.id);
  auto& ready = step.result.ready;
  const auto first = ready.size();
  const auto group = tensor.group;
  groups_.ready(group, group_size, std::move(tensor), ready);
  for (auto i = first; i < ready.size(); ++i)
    ids.unpin(ready[i].id);
}

void response_builder::leave_groups(const std::vector<group_claim>& claims, id_registry& ids,
                                    negotiation_step& step) {
  auto& ready = step.result.ready;
  const auto first = ready.size();
  groups_.gone(claims, ready);
  for (auto i = first; i < ready.size(); ++i)
    ids.unpin(ready[i].id);
}

} // namespace farandole
