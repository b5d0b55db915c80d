// The messages of relays. A relay requests a tensor for many members at once, and the members are counted a word
// at a time. If this is impossible, because one of them has already requested the tensor or the tensor needs
// special treatment, each member's request is processed as if it had arrived alone.
#include "collectives/negotiation/negotiation.hpp"
#include "messages/values/breach.hpp"

namespace farandole {

negotiation_result negotiation::receive(std::int32_t relay, const gathered& message,
                                        std::chrono::nanoseconds current_time) {
  if (ended_)
    return {};
  negotiation_step step{-1, current_time, message.full.size(), false, {}};
  for (const auto& asked : message.ids)
    step.expected += asked.ids.size();
  ids_.begin_message();
  const auto speak = [&](const rank_runs& ranks, auto take) {
    if (step.result.breach)
      return;
    if (const auto members = branches_.named(relay, ranks))
      take(*members);
    else
      step.blame(relay, breach::strange_ranks);
  };
  if (!message.buckets.empty())
    take_buckets(step, relay, message.buckets);
  for (const auto& asked : message.ids)
    speak(asked.ranks, [&](const member_mask& members) { take_ids(step, asked.ids, members); });
  for (const auto& asked : message.full)
    speak(asked.ranks, [&](const member_mask& members) { take_full(step, asked.asked_request, members); });
  plan_buckets(step);
  return std::move(step.result);
}

bool negotiation::speaks_for(std::int32_t relay, std::int32_t rank) const {
  const auto* branch = branches_.find(relay);
  const auto member = request_table_.members().member_of(rank);
  return branch && member && branch->has(static_cast<std::size_t>(*member));
}

// ---- taken --------------------------------------------------------------------------------------

void negotiation::take_buckets(negotiation_step& step, std::int32_t relay,
                               const std::vector<std::uint32_t>& buckets) {
  const auto* branch = branches_.find(relay);
  if (!branch)
    return step.blame(relay, breach::strange_ranks);
  for (const auto bucket : buckets) {
    const auto* ids = ids_.buckets().find(bucket);
    if (!ids)
      return step.blame(relay, breach::unplanned_bucket);
    if (ids_.buckets().is_open(bucket))
      count_bucket(step, bucket, *branch);
    else
      take_ids(step, std::vector(*ids), *branch);
  }
}

// An id that is requested by itself should not be in a bucket, so its bucket is dissolved.
void negotiation::take_ids(negotiation_step& step, const std::vector<std::uint32_t>& ids,
                           const member_mask& members) {
  for (const auto id : ids)
    if (const auto* tensor = ids_.find(id))
      ids_.miss(*tensor, request_table_, step.result);
  count_ids(step, ids, members);
}

void negotiation::take_full(negotiation_step& step, const request& asked, const member_mask& members) {
  const auto row_id = request_table_.find(asked.name);
  const bool plain = asked.signature.operation != operation::join &&
                     !(row_id && (request_table_.id(*row_id) != 0 || request_table_.withdrawn(*row_id) ||
                                  request_table_.asked().has_any(*row_id, members)));
  if (!plain)
    return take_each(step, members, [&] { take_full(step, asked); });
  const auto row = request_table_.open(asked.name);
  if (request_table_.add(row, members, asked, step.current_time) == request_table::count::complete)
    responses_.complete_written(row, request_table_, ids_, step);
}

template <class Take>
void negotiation::take_each(negotiation_step& step, const member_mask& members, Take take) {
  members.for_each([&](std::size_t member) {
    step.member = static_cast<std::int32_t>(member);
    if (step.result.breach)
      return;
    take();
    if (step.result.breach)
      step.result.broken_by = request_table_.members().rank_of(step.member);
  });
}

// ---- counted ------------------------------------------------------------------------------------

void negotiation::count_ids(negotiation_step& step, const std::vector<std::uint32_t>& ids,
                            const member_mask& members) {
  for (const auto id : ids) {
    auto* tensor = ids_.find(id);
    if (!tensor || tensor->cell >= 0 || request_table_.withdrawn(tensor->row) ||
        request_table_.asked().has_any(tensor->row, members))
      take_each(step, members, [&] { take_ids(step, {id}); });
    else if (request_table_.add_known(tensor->row, members, step.current_time) ==
             request_table::count::complete)
      responses_.complete_known(*tensor, request_table_, ids_, step);
  }
}

void negotiation::count_bucket(negotiation_step& step, std::uint32_t bucket, const member_mask& members) {
  auto& buckets = ids_.buckets();
  const auto counted = buckets.add(bucket, members, request_table_, step.current_time);
  if (counted == bucket_coordinator::count::waiting)
    return;
  // The ids are copied: the bucket may be dissolved while they are counted.
  const auto ids = *buckets.find(bucket);
  if (counted == bucket_coordinator::count::complete)
    return complete_bucket(step, ids);
  if (counted == bucket_coordinator::count::repeated)
    ids_.dissolve(bucket, request_table_, step.result);
  count_ids(step, ids, members);
}

// All members below relays have requested the whole bucket. Members that talk to the leader directly may still be
// missing for some of the ids.
void negotiation::complete_bucket(negotiation_step& step, const std::vector<std::uint32_t>& ids) {
  bool whole = true;
  // The bucket is dissolved if one of its tensors gets a cell on the fast path.
  for (const auto id : ids) {
    auto& tensor = *ids_.find(id);
    if (request_table_.add_known(tensor.row, branches_.relayed(), step.current_time) ==
        request_table::count::complete)
      responses_.complete_known(tensor, request_table_, ids_, step);
    else
      whole = false;
  }
  step.result.whole |= whole;
}

} // namespace farandole
