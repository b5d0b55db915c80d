#include "collectives/negotiation/id_registry.hpp"

#include <cassert>
#include <utility>

namespace farandole {

id_registry::id_registry(std::size_t capacity, const fast_path_options& fast_path, bucket_coordinator buckets)
    : cache_(capacity), fast_path_(fast_path), buckets_(std::move(buckets)) {}

std::uint32_t id_registry::assign(const cached_tensor& tensor, request_table& rows,
                                  std::chrono::nanoseconds current_time, negotiation_result& result) {
  // A joined member has sent no signature, so it could not use the id.
  if (!rows.joined().none())
    return 0;
  std::vector<cached_tensor> evicted;
  const auto* kept = cache_.insert(cached_tensor(tensor), evicted);
  for (const auto& old : evicted) {
    result.forget.push_back(old.id);
    end(old, rows, result);
  }
  if (!kept)
    return 0;
  rows.tie(tensor.row, kept->id);
  result.assignments.push_back({kept->id, kept->name, -1, 0, kept->signature});
  buckets_.watch(kept->id, kept->as_ready.bytes, rows.since(tensor.row), current_time);
  return kept->id;
}

void id_registry::use(cached_tensor& tensor, std::chrono::nanoseconds since,
                      std::chrono::nanoseconds current_time) {
  if (tensor.bucket == 0)
    buckets_.watch(tensor.id, tensor.as_ready.bytes, since, current_time);
  cache_.touch(tensor);
  ++tensor.uses;
}

void id_registry::pin(std::uint32_t id) {
  cache_.pin(*cache_.find(id));
}

void id_registry::unpin(std::uint32_t id) {
  if (const auto* tensor = cache_.find(id))
    cache_.unpin(*tensor);
}

void id_registry::forget(const cached_tensor& tensor, request_table& rows, negotiation_result& result) {
  fast_path_.forget(tensor.id);
  end(cache_.forget(tensor.id), rows, result);
}

// Members that wait under the id are asked for their full requests. Then they, too, know the tensor by its name
// when it is assigned its next id.
void id_registry::end(const cached_tensor& old, request_table& rows, negotiation_result& result) {
  leave_bucket(old, rows, result);
  for (const auto rank : rows.take_out(old.row))
    result.questions.push_back({rank, old.id});
  rows.tie(old.row, 0);
}

// ---- cells --------------------------------------------------------------------------------------

void id_registry::grant(cached_tensor& tensor, request_table& rows, negotiation_result& result) {
  auto granted = fast_path_.grant(tensor);
  if (!granted)
    return;
  leave_bucket(tensor, rows, result);
  cache_.keep_for_fast_path(tensor);
  result.assignments.push_back(std::move(*granted));
}

void id_registry::grant_group(std::span<const ready_tensor> group, request_table& rows,
                              negotiation_result& result) {
  std::vector<cached_tensor*> tensors;
  for (const auto& ready : group) {
    auto* tensor = cache_.find(ready.id);
    if (!tensor || tensor->uses < 2 || tensor->cell >= 0)
      return;
    tensors.push_back(tensor);
  }
  for (auto& granted : fast_path_.grant_group(tensors)) {
    const auto* tensor = cache_.find(granted.id);
    leave_bucket(*tensor, rows, result);
    cache_.keep_for_fast_path(*tensor);
    result.assignments.push_back(std::move(granted));
  }
}

// All members that leave a cell leave it in the same round: no member can be ahead of the first one that did not
// publish, or that gave the round up (which is then complete for no member). So the first message counts, and later
// ones find the id forgotten.
void id_registry::retract(const fast_path_round& round, request_table& rows, negotiation_result& result) {
  const auto* tensor = cache_.find(round.id);
  if (!tensor || tensor->cell < 0)
    return;
  result.retract.push_back(round);
  forget(*tensor, rows, result);
}

// The joining member has not learned of its remaining cells yet, so it has published no round in them.
void id_registry::retract_all(request_table& rows, negotiation_result& result) {
  for (const auto id : fast_path_.forget_all()) {
    result.retract.push_back({id, 0});
    forget(*cache_.find(id), rows, result);
  }
}

// ---- buckets ------------------------------------------------------------------------------------

// While a member has joined, the relays above it send ids instead of buckets. That does not mean that the buckets
// were planned wrongly.
void id_registry::miss(const cached_tensor& tensor, request_table& rows, negotiation_result& result) {
  if (tensor.bucket != 0 && rows.joined().none())
    dissolve(tensor.bucket, rows, result);
}

// The id is no longer requested from the leader.
void id_registry::leave_bucket(const cached_tensor& tensor, request_table& rows, negotiation_result& result) {
  if (tensor.bucket != 0)
    dissolve(tensor.bucket, rows, result);
  buckets_.forget(tensor.id);
}

void id_registry::dissolve(std::uint32_t bucket, request_table& rows, negotiation_result& result) {
  for (const auto id : buckets_.dissolve(bucket, rows))
    if (auto* tensor = cache_.find(id))
      tensor->bucket = 0;
  result.dissolved.push_back(bucket);
}

void id_registry::plan(negotiation_result& result) {
  for (auto& planned : buckets_.plan()) {
    std::vector<request_table::row_id> rows;
    for (const auto id : planned.ids) {
      auto* tensor = cache_.find(id);
      assert(tensor && tensor->cell < 0 && "the planner forgets the same ids");
      tensor->bucket = planned.id;
      rows.push_back(tensor->row);
    }
    buckets_.open(planned, std::move(rows));
    result.buckets.push_back(std::move(planned));
  }
}

} // namespace farandole
