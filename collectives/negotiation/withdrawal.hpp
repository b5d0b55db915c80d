// The withdrawal of a row: one member takes its request back, so the tensor fails for all members. The row stays
// until every member has asked once and was refused. A refused member may ask again before that; its new request
// is kept and processed afterwards.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "messages/wire/negotiation.hpp"

namespace farandole {

class withdrawal {
public:
  explicit withdrawal(std::int32_t rank) : rank_(rank) {}

  /// The rank of the member that took its request back.
  std::int32_t rank() const { return rank_; }
  /// Only the first request of each member is kept.
  void keep_early(std::int32_t member, const request& asked);
  /// The member takes its kept request back, too. Returns whether there was one.
  bool drop_early(std::int32_t member);
  /// Removes and returns the kept requests, each with its member, in the order of arrival.
  std::vector<std::pair<std::int32_t, request>> take_early() { return std::exchange(early_, {}); }

private:
  std::int32_t rank_;
  std::vector<std::pair<std::int32_t, request>> early_;
};

} // namespace farandole
