#include "collectives/negotiation/bucket_coordinator.hpp"

#include <algorithm>
#include <utility>

namespace farandole {

bucket_coordinator::bucket_coordinator(std::size_t buckets, member_mask relayed)
    : relayed_(std::move(relayed)), planner_(planner_rules{.buckets = std::min(buckets, bucket_limit)}) {}

// ---- asking -------------------------------------------------------------------------------------

const bucket_coordinator::ids* bucket_coordinator::find(std::uint32_t bucket) const {
  const auto found = open_.find(bucket);
  return found == open_.end() ? dissolved_.find(bucket) : &found->second.ids;
}

bucket_coordinator::count bucket_coordinator::add(std::uint32_t bucket, const member_mask& members,
                                                  const request_table& rows,
                                                  std::chrono::nanoseconds current_time) {
  auto& counted = open_.at(bucket);
  // Members are counted in the rows while a member has joined, or while a relayed member waits in one of the rows.
  if (!rows.joined().none() || (counted.in_rows && any_in_rows(counted, rows)))
    return count::in_rows;
  counted.in_rows = false;
  if (counted.asked.overlaps(members))
    return count::repeated;
  if (counted.asked.empty())
    counted.since = current_time;
  counted.asked.add(members);
  if (!(counted.asked == relayed_))
    return count::waiting;
  planner_.served(bucket);
  counted.asked.clear();
  counted.in_rows = true;
  return count::complete;
}

bool bucket_coordinator::any_in_rows(const open_bucket& bucket, const request_table& rows) const {
  return std::any_of(bucket.rows.begin(), bucket.rows.end(),
                     [&](auto row) { return rows.asked().has_any(row, relayed_); });
}

// ---- in rows ------------------------------------------------------------------------------------

void bucket_coordinator::spell_out_late(request_table& rows, std::chrono::nanoseconds current_time,
                                        std::chrono::nanoseconds limit) {
  for (auto& [id, bucket] : open_)
    if (!bucket.asked.empty() && current_time - bucket.since > limit)
      spell_out(bucket, rows);
}

void bucket_coordinator::interrupt(request_table& rows) {
  for (auto& [id, bucket] : open_)
    spell_out(bucket, rows);
  planner_.spoil();
}

void bucket_coordinator::spell_out(open_bucket& bucket, request_table& rows) {
  if (bucket.asked.empty())
    return;
  for (const auto row : bucket.rows)
    rows.add_known(row, bucket.asked, bucket.since);
  bucket.asked.clear();
  bucket.in_rows = true;
}

bucket_coordinator::ids bucket_coordinator::dissolve(std::uint32_t bucket, request_table& rows) {
  auto ended = std::move(open_.extract(bucket).mapped());
  spell_out(ended, rows);
  dissolved_.keep(bucket, ended.ids);
  planner_.missed(bucket);
  return std::move(ended.ids);
}

// ---- planning -----------------------------------------------------------------------------------

void bucket_coordinator::watch(std::uint32_t id, std::size_t bytes, std::chrono::nanoseconds since,
                               std::chrono::nanoseconds current_time) {
  planner_.completed(id, bytes, since, current_time);
}

void bucket_coordinator::forget(std::uint32_t id) {
  planner_.forget(id);
}

std::vector<bucket> bucket_coordinator::plan() {
  return planner_.plan();
}

void bucket_coordinator::open(const bucket& planned, std::vector<request_table::row_id> rows) {
  open_bucket opened;
  opened.ids = planned.ids;
  opened.rows = std::move(rows);
  // Gives `asked` the size of `relayed_`.
  opened.asked = relayed_;
  opened.asked.clear();
  opened.in_rows = true;
  open_.emplace(planned.id, std::move(opened));
}

} // namespace farandole
