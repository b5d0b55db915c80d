#include "collectives/relay/relay_outbox.hpp"

#include <algorithm>
#include <utility>

namespace farandole {

relay_outbox::relay_outbox(std::vector<std::int32_t> ranks, std::chrono::nanoseconds hold)
    : ranks_(std::move(ranks)), everyone_(all_members(ranks_.size())), hold_(hold) {}

// ---- in -----------------------------------------------------------------------------------------

void relay_outbox::put(std::uint32_t id, const member_mask& members) {
  auto same = std::find_if(ready_ids_.begin(), ready_ids_.end(),
                           [&](const ready_ids& ready) { return ready.members == members; });
  if (same == ready_ids_.end())
    same = ready_ids_.insert(ready_ids_.end(), {members, {}});
  same->ids.push_back(id);
}

void relay_outbox::put(request asked, const member_mask& members) {
  ready_.full.push_back({std::move(asked), runs(members)});
}

void relay_outbox::put_complete(std::uint32_t id, const member_mask& members,
                                std::chrono::nanoseconds current_time) {
  if (!accumulator_.takes(id))
    return put(id, members);
  // Some of the requests for this id have gone up before, so the bucket cannot be requested for all members.
  if (!(members == everyone_)) {
    flush_bucket(id);
    return put(id, members);
  }
  if (const auto whole = accumulator_.put(id, current_time))
    ready_.buckets.push_back(*whole);
}

void relay_outbox::put_apart(std::int32_t rank, const requests& batch) {
  ready_.apart.push_back({rank, batch});
}

// All members below have requested the ids that the accumulator returns.
void relay_outbox::put_all(const bucket_accumulator::ids& ids) {
  for (auto id : ids)
    put(id, everyone_);
}

rank_runs relay_outbox::runs(const member_mask& members) const {
  return members == everyone_ ? rank_runs{} : runs_of(ranks_, members);
}

// ---- out ----------------------------------------------------------------------------------------

gathered relay_outbox::due(std::chrono::nanoseconds current_time) {
  if (idle())
    return {};
  if (!all_answered() && current_time < last_sent_ + hold_)
    return {};
  last_sent_ = current_time;
  unanswered_.clear();
  unanswered_names_.clear();
  for (auto& ready : ready_ids_) {
    unanswered_.insert(ready.ids.begin(), ready.ids.end());
    ready_.ids.push_back({std::move(ready.ids), runs(ready.members)});
  }
  ready_ids_.clear();
  for (const auto bucket : ready_.buckets)
    if (const auto* ids = accumulator_.find(bucket))
      unanswered_.insert(ids->begin(), ids->end());
  for (const auto& asked : ready_.full)
    unanswered_names_.insert(asked.asked_request.name);
  return std::exchange(ready_, {});
}

std::optional<std::chrono::nanoseconds> relay_outbox::wake_at() const {
  auto wake = accumulator_.wake_at();
  if (idle())
    return wake;
  const auto next = all_answered() ? std::chrono::nanoseconds::min() : last_sent_ + hold_;
  return wake ? std::min(*wake, next) : next;
}

} // namespace farandole
