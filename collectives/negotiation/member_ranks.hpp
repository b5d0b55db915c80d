// Translates between the positions of members in a process set and their global ranks. The leader's tables
// identify a member by its position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace farandole {

class member_ranks {
public:
  /// `ranks`: global ranks by position; at least one, without duplicates, in any order.
  explicit member_ranks(std::vector<std::int32_t> ranks);

  std::int32_t count() const { return static_cast<std::int32_t>(ranks_.size()); }
  std::int32_t rank_of(std::int32_t member) const { return ranks_[static_cast<std::size_t>(member)]; }
  /// The position of `rank`; empty if it is not in the set.
  std::optional<std::int32_t> member_of(std::int32_t rank) const;

private:
  std::vector<std::int32_t> ranks_;
  std::unordered_map<std::int32_t, std::int32_t> member_of_;
};

} // namespace farandole
