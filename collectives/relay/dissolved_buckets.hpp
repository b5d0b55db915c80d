// Remembers the ids of dissolved buckets. A request for a bucket may be on its way up while the leader's schedule
// that dissolves the bucket comes down; the receiver must still understand the request.
//
// Keeping the latest 2 · bucket_limit of them is enough. New buckets are planned only when all members have
// completed two equal steps. So from the second planning after a dissolution on, all members know of the
// dissolution and all messages that name the bucket have arrived. Between two plannings, at most as many buckets
// can be dissolved as existed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "messages/wire/negotiation.hpp"

namespace farandole {

class dissolved_buckets {
public:
  void keep(std::uint32_t bucket, std::vector<std::uint32_t> ids) {
    if (kept_.size() == 2 * bucket_limit)
      kept_.pop_front();
    kept_.emplace_back(bucket, std::move(ids));
  }

  /// The ids of the bucket; null if it is not remembered.
  const std::vector<std::uint32_t>* find(std::uint32_t bucket) const {
    const auto found =
        std::find_if(kept_.rbegin(), kept_.rend(), [&](const auto& entry) { return entry.first == bucket; });
    return found == kept_.rend() ? nullptr : &found->second;
  }

private:
  std::deque<std::pair<std::uint32_t, std::vector<std::uint32_t>>> kept_;
};

} // namespace farandole
