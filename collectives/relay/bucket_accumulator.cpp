#include "collectives/relay/bucket_accumulator.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace farandole {

bucket_accumulator::ids bucket_accumulator::add(const bucket& planned) {
  auto off = take_down(planned.id);
  for (auto id : planned.ids) {
    const auto more = flush_bucket(id);
    off.insert(off.end(), more.begin(), more.end());
  }
  // Buckets are optional: at the limit, the ids of a new one are requested one by one.
  if (filling_.size() == bucket_limit)
    return off;
  for (std::size_t i = 0; i < planned.ids.size(); ++i)
    position_of_.insert_or_assign(planned.ids[i], bucket_position{planned.id, i});
  filling_.insert_or_assign(
      planned.id, filling{planned.ids, std::vector<bool>(planned.ids.size()), 0, {}, planned.patience});
  return off;
}

bucket_accumulator::ids bucket_accumulator::dissolve(std::uint32_t bucket) {
  return take_down(bucket);
}

const bucket_accumulator::ids* bucket_accumulator::find(std::uint32_t bucket) const {
  const auto found = filling_.find(bucket);
  return found == filling_.end() ? memory_.find(bucket) : &found->second.all;
}

bool bucket_accumulator::holds(std::uint32_t id) const {
  const auto found = position_of_.find(id);
  return found != position_of_.end() && filling_.at(found->second.bucket).ready[found->second.position];
}

std::optional<std::uint32_t> bucket_accumulator::put(std::uint32_t id,
                                                     std::chrono::nanoseconds current_time) {
  const auto found = position_of_.at(id);
  auto& entry = filling_.at(found.bucket);
  assert(!entry.ready[found.position]);
  if (entry.count == 0)
    entry.since = current_time;
  entry.ready[found.position] = true;
  if (++entry.count < entry.all.size())
    return std::nullopt;
  entry.ready.assign(entry.all.size(), false);
  entry.count = 0;
  return found.bucket;
}

bucket_accumulator::ids bucket_accumulator::flush_bucket(std::uint32_t id) {
  const auto found = position_of_.find(id);
  return found == position_of_.end() ? ids{} : take_down(found->second.bucket);
}

bucket_accumulator::ids bucket_accumulator::flush_all() {
  return overdue(std::chrono::nanoseconds::max());
}

bucket_accumulator::ids bucket_accumulator::overdue(std::chrono::nanoseconds current_time) {
  std::vector<std::uint32_t> late;
  for (const auto& [bucket, filling] : filling_)
    if (filling.count > 0 && filling.since + filling.patience <= current_time)
      late.push_back(bucket);
  std::sort(late.begin(), late.end());
  ids off;
  for (auto bucket : late) {
    const auto more = take_down(bucket);
    off.insert(off.end(), more.begin(), more.end());
  }
  return off;
}

std::optional<std::chrono::nanoseconds> bucket_accumulator::wake_at() const {
  std::optional<std::chrono::nanoseconds> wake;
  for (const auto& [bucket, filling] : filling_)
    if (filling.count > 0)
      wake = std::min(wake.value_or(std::chrono::nanoseconds::max()), filling.since + filling.patience);
  return wake;
}

bucket_accumulator::ids bucket_accumulator::take_down(std::uint32_t bucket) {
  const auto found = filling_.find(bucket);
  if (found == filling_.end())
    return {};
  auto entry = std::move(found->second);
  filling_.erase(found);
  ids ready;
  for (std::size_t i = 0; i < entry.all.size(); ++i) {
    position_of_.erase(entry.all[i]);
    if (entry.ready[i])
      ready.push_back(entry.all[i]);
  }
  memory_.keep(bucket, std::move(entry.all));
  return ready;
}

} // namespace farandole
