// The heartbeats of the members on one host: a word each in the segment that they share. A process that is
// stopped, waits for a disk or is swapped out can tell nobody; the others see that its word stands still.
//
// Each word is written by its member's event loop alone, again and again (actors/member/heartbeats), and read by the
// event loops of the others. The word announces nothing but itself, so both are relaxed. A crash leaves it as
// it is, and one that a faulty member writes to only hides that another is stuck.
#pragma once

#include <atomic>
#include <cassert>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/transport/shm/shm_segment.hpp"

namespace farandole {

class heartbeat_words {
public:
  /// `place`: of this member among those of the segment, whose ranks are `ranks`.
  heartbeat_words(std::shared_ptr<shm_segment> shared, std::uint32_t place, std::vector<std::int32_t> ranks)
      : segment_(std::move(shared)), place_(place), ranks_(std::move(ranks)) {
    assert(ranks_.size() == segment_->layout().members && place_ < ranks_.size());
  }

  const std::vector<std::int32_t>& ranks() const { return ranks_; }

  /// This process makes progress.
  void beat() { segment_->counters(place_).heartbeat.fetch_add(1, std::memory_order_relaxed); }

  /// `see(rank, word)` for each of the others.
  template <class See>
  void each_other(See&& see) const {
    for (std::uint32_t i = 0; i < ranks_.size(); ++i)
      if (i != place_)
        see(ranks_[i], segment_->counters(i).heartbeat.load(std::memory_order_relaxed));
  }

private:
  std::shared_ptr<shm_segment> segment_;
  std::uint32_t place_;
  std::vector<std::int32_t> ranks_;
};

} // namespace farandole
