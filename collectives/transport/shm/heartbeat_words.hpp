// The heartbeats of the members on one host: one counter for each member in the shared segment. A process
// that is stopped, blocked on a disk or swapped out cannot report it; the other members see that its
// counter stopped.
//
// Only the event loop of a member increments its counter (actors/member/heartbeats); the event loops of the
// other members read it. The counter publishes no other data, so relaxed accesses are enough. A crash
// leaves the last value. A faulty member that writes to another member's counter can only hide that this
// member is stuck.
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
  /// `ranks`: the ranks of the members of the segment. `place`: the index of this member in `ranks`.
  heartbeat_words(std::shared_ptr<shm_segment> shared, std::uint32_t place, std::vector<std::int32_t> ranks)
      : segment_(std::move(shared)), place_(place), ranks_(std::move(ranks)) {
    assert(ranks_.size() == segment_->layout().members && place_ < ranks_.size());
  }

  const std::vector<std::int32_t>& ranks() const { return ranks_; }

  /// Increments this member's counter.
  void beat() { segment_->counters(place_).heartbeat.fetch_add(1, std::memory_order_relaxed); }

  /// Calls `see(rank, counter value)` for each other member.
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
