#include "messages/record/event_follower.hpp"

#include <algorithm>

namespace farandole {

event_follower::event_follower(const event_recorder& recorder) {
  for (std::size_t i = 0; i < event_ring_limit; ++i) {
    rings_.push_back(recorder.region()->ring(i));
    next_[i] = rings_[i].header().written.load(std::memory_order_acquire);
  }
}

event_follower::batch event_follower::take(std::uint64_t last_ticks) {
  batch result;
  result.events = std::move(later_);
  later_.clear();
  for (std::size_t i = 0; i < rings_.size(); ++i) {
    auto excerpt = rings_[i].read(next_[i]);
    next_[i] = excerpt.end;
    result.dropped += excerpt.dropped;
    result.events.insert(result.events.end(), excerpt.events.begin(), excerpt.events.end());
  }
  std::stable_sort(result.events.begin(), result.events.end(),
                   [](const event& a, const event& b) { return a.ticks < b.ticks; });
  const auto later =
      std::upper_bound(result.events.begin(), result.events.end(), last_ticks,
                       [](std::uint64_t ticks, const event& entry) { return ticks < entry.ticks; });
  later_.assign(later, result.events.end());
  result.events.erase(later, result.events.end());
  return result;
}

bool event_follower::has_news() const {
  for (std::size_t i = 0; i < rings_.size(); ++i)
    if (rings_[i].header().written.load(std::memory_order_acquire) != next_[i])
      return true;
  return !later_.empty();
}

} // namespace farandole
