#include "collectives/plan/bucket_shelf.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace farandole {

bucket_shelf::ids bucket_shelf::add(const bucket& planned) {
  auto off = take_down(planned.id);
  for (auto id : planned.ids) {
    const auto more = let_go(id);
    off.insert(off.end(), more.begin(), more.end());
  }
  // Nobody is obliged to make use of one.
  if (standing_.size() == bucket_limit)
    return off;
  for (std::size_t i = 0; i < planned.ids.size(); ++i)
    place_of_.insert_or_assign(planned.ids[i], place{planned.id, i});
  standing_.insert_or_assign(
      planned.id, standing{planned.ids, std::vector<bool>(planned.ids.size()), 0, {}, planned.patience});
  return off;
}

bucket_shelf::ids bucket_shelf::dissolve(std::uint32_t bucket) {
  return take_down(bucket);
}

const bucket_shelf::ids* bucket_shelf::find(std::uint32_t bucket) const {
  const auto place = standing_.find(bucket);
  return place == standing_.end() ? memory_.find(bucket) : &place->second.all;
}

bool bucket_shelf::holds(std::uint32_t id) const {
  const auto place = place_of_.find(id);
  return place != place_of_.end() && standing_.at(place->second.bucket).ready[place->second.position];
}

std::optional<std::uint32_t> bucket_shelf::put(std::uint32_t id, std::chrono::nanoseconds now) {
  const auto place = place_of_.at(id);
  auto& one = standing_.at(place.bucket);
  assert(!one.ready[place.position]);
  if (one.count == 0)
    one.since = now;
  one.ready[place.position] = true;
  if (++one.count < one.all.size())
    return std::nullopt;
  one.ready.assign(one.all.size(), false);
  one.count = 0;
  return place.bucket;
}

bucket_shelf::ids bucket_shelf::let_go(std::uint32_t id) {
  const auto place = place_of_.find(id);
  return place == place_of_.end() ? ids{} : take_down(place->second.bucket);
}

bucket_shelf::ids bucket_shelf::let_all_go() {
  return overdue(std::chrono::nanoseconds::max());
}

bucket_shelf::ids bucket_shelf::overdue(std::chrono::nanoseconds now) {
  std::vector<std::uint32_t> late;
  for (const auto& [bucket, one] : standing_)
    if (one.count > 0 && one.since + one.patience <= now)
      late.push_back(bucket);
  std::sort(late.begin(), late.end());
  ids off;
  for (auto bucket : late) {
    const auto more = take_down(bucket);
    off.insert(off.end(), more.begin(), more.end());
  }
  return off;
}

std::optional<std::chrono::nanoseconds> bucket_shelf::wake_at() const {
  std::optional<std::chrono::nanoseconds> wake;
  for (const auto& [bucket, one] : standing_)
    if (one.count > 0)
      wake = std::min(wake.value_or(std::chrono::nanoseconds::max()), one.since + one.patience);
  return wake;
}

bucket_shelf::ids bucket_shelf::take_down(std::uint32_t bucket) {
  const auto place = standing_.find(bucket);
  if (place == standing_.end())
    return {};
  auto one = std::move(place->second);
  standing_.erase(place);
  ids ready;
  for (std::size_t i = 0; i < one.all.size(); ++i) {
    place_of_.erase(one.all[i]);
    if (one.ready[i])
      ready.push_back(one.all[i]);
  }
  memory_.keep(bucket, std::move(one.all));
  return ready;
}

} // namespace farandole
