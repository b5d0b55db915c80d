// One member takes back what it has asked for, so the tensor fails for all. Its row stays until every member
// has asked once and was turned away; a member that was turned away may ask again before that, and its
// request is kept for the time after.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "messages/wire/negotiation.hpp"

namespace farandole {

class withdrawal {
public:
  explicit withdrawal(std::int32_t rank) : rank_(rank) {}

  /// Of the member that took its request back.
  std::int32_t rank() const { return rank_; }
  /// Only the first request of each member is kept.
  void keep_early(std::int32_t member, const request& asked);
  /// By member, in the order in which they came.
  std::vector<std::pair<std::int32_t, request>> take_early() { return std::exchange(early_, {}); }

private:
  std::int32_t rank_;
  std::vector<std::pair<std::int32_t, request>> early_;
};

} // namespace farandole
