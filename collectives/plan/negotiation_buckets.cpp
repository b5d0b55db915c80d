// Buckets: who has asked for one is counted by the word, for all its ids at once, and written into their rows
// when everybody has, or as soon as anything happens to one of them alone. So rows say all there is to say
// whenever somebody looks at them, and whoever reads this may think of a bucket as of its ids.
#include <algorithm>
#include <cassert>
#include <utility>

#include "collectives/plan/negotiation.hpp"

namespace farandole {

// ---- asking -------------------------------------------------------------------------------------

void negotiation::take_buckets(step& current, std::int32_t relay, const std::vector<std::uint32_t>& buckets) {
  const auto branch = branches_.find(relay);
  if (branch == branches_.end())
    return blame(current, relay, "it speaks for ranks that are not below it");
  for (const auto bucket : buckets)
    if (!known(current, relay, bucket))
      return;
    else if (buckets_.contains(bucket))
      count_bucket(current, bucket, branch->second);
    else
      take_ids(current, std::vector(*dissolved_.find(bucket)), branch->second);
}

// Of one member: its ids are counted in rows.
void negotiation::take_buckets(step& current, const std::vector<std::uint32_t>& buckets) {
  for (const auto bucket : buckets) {
    if (!known(current, tally_.rank_of(current.member), bucket))
      return;
    const auto place = buckets_.find(bucket);
    take_ids(current, std::vector(place == buckets_.end() ? *dissolved_.find(bucket) : place->second.ids));
  }
}

// Otherwise nobody planned it.
bool negotiation::known(step& current, std::int32_t rank, std::uint32_t bucket) const {
  if (buckets_.contains(bucket) || dissolved_.find(bucket))
    return true;
  blame(current, rank, "it names a bucket that nobody planned");
  return false;
}

void negotiation::blame(step& current, std::int32_t rank, const std::string& what) {
  current.out.breach = {error_kind::invalid_argument,
                        "rank " + std::to_string(rank) + " broke the protocol: " + what};
  current.out.broken_by = rank;
}

void negotiation::count_bucket(step& current, std::uint32_t bucket, const member_mask& who) {
  auto& one = buckets_.at(bucket);
  // Who has joined is counted in rows, and somebody who waits in one is.
  if (tally_.joined() > 0 || (one.in_rows && any_in_rows(one)))
    return count_ids(current, std::vector(one.ids), who);
  one.in_rows = false;
  if (one.who.overlaps(who)) {
    const auto ids = one.ids;
    dissolve(current, bucket);
    return count_ids(current, ids, who);
  }
  if (one.who.empty())
    one.since = current.now;
  one.who.add(who);
  if (one.who == relayed_)
    complete_bucket(current, bucket);
}

// All below relays have asked for all of it; members beside them may be missing here and there.
void negotiation::complete_bucket(step& current, std::uint32_t bucket) {
  auto& one = buckets_.at(bucket);
  planner_->served(bucket);
  const auto who = std::exchange(one.who, member_mask(tally_.ranks().size()));
  one.in_rows = true;
  bool whole = true;
  // It ends if one of them gets a cell on the board.
  for (const auto id : std::vector(one.ids)) {
    auto& tensor = *cache_.find(id);
    if (tally_.add_known(tensor.row, who, current.now) == tally::count::complete)
      complete_known(current, tensor);
    else
      whole = false;
  }
  current.out.whole |= whole;
}

bool negotiation::any_in_rows(const open_bucket& one) const {
  return std::any_of(one.rows.begin(), one.rows.end(),
                     [&](auto row) { return tally_.asked_any(row, relayed_); });
}

// ---- in pieces ----------------------------------------------------------------------------------

// Some are missing in every row, so that none becomes complete here.
void negotiation::spell_out(open_bucket& one) {
  if (one.who.empty())
    return;
  for (const auto row : one.rows)
    tally_.add_known(row, one.who, one.since);
  one.who.clear();
  one.in_rows = true;
}

/// Something happens to this tensor alone: it had better not be in a bucket. While members have joined
/// nothing comes in buckets from those above them, and that says nothing.
void negotiation::miss(step& current, const cached_tensor& tensor) {
  if (tensor.bucket != 0 && tally_.joined() == 0)
    dissolve(current, tensor.bucket);
}

/// This id is not asked for by way of the leader any more.
void negotiation::leave_bucket(step& current, const cached_tensor& tensor) {
  if (tensor.bucket != 0)
    dissolve(current, tensor.bucket);
  if (planner_)
    planner_->forget(tensor.id);
}

void negotiation::dissolve(step& current, std::uint32_t bucket) {
  const auto place = buckets_.find(bucket);
  auto one = std::move(place->second);
  buckets_.erase(place);
  spell_out(one);
  for (const auto id : one.ids)
    if (auto* tensor = cache_.find(id))
      tensor->bucket = 0;
  dissolved_.keep(bucket, std::move(one.ids));
  planner_->missed(bucket);
  current.out.dissolved.push_back(bucket);
}

// ---- planning -----------------------------------------------------------------------------------

void negotiation::watch(const cached_tensor& tensor, std::chrono::nanoseconds since, const step& current) {
  if (planner_ && tensor.bucket == 0)
    planner_->completed(tensor.id, tensor.as_ready.bytes, since, current.now);
}

void negotiation::make_plans(step& current) {
  if (!planner_ || tally_.joined() > 0 || ended_)
    return;
  for (auto& planned : planner_->plan()) {
    open_bucket one;
    one.who = member_mask(tally_.ranks().size());
    one.in_rows = true;
    for (const auto id : planned.ids) {
      auto* tensor = cache_.find(id);
      assert(tensor && tensor->cell < 0 && "the planner forgets what is forgotten");
      tensor->bucket = planned.id;
      one.rows.push_back(tensor->row);
    }
    one.ids = planned.ids;
    buckets_.emplace(planned.id, std::move(one));
    current.out.buckets.push_back(std::move(planned));
  }
}

} // namespace farandole
