// What stood in buckets that are no more. Word of a bucket may be on its way up while the leader's word that
// it is dissolved comes down, and must still be understood.
//
// The latest 2 · bucket_limit of them are enough. New buckets are planned only when all members have come
// through two equal steps, so at every planning but the next one after it has everybody heard that a bucket
// is dissolved, and all that was said of it has arrived; and between two plannings no more can go than there
// were.
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

  /// Null where nobody remembers it.
  const std::vector<std::uint32_t>* find(std::uint32_t bucket) const {
    const auto place =
        std::find_if(kept_.rbegin(), kept_.rend(), [&](const auto& entry) { return entry.first == bucket; });
    return place == kept_.rend() ? nullptr : &place->second;
  }

private:
  std::deque<std::pair<std::uint32_t, std::vector<std::uint32_t>>> kept_;
};

} // namespace farandole
