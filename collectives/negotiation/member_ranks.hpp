// The members of a process set have positions in it, and global ranks. Inside the leader's tables a member is
// its position; this translates both ways.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace farandole {

class member_ranks {
public:
  /// Global ranks by position; at least one, each once, in any order.
  explicit member_ranks(std::vector<std::int32_t> ranks);

  std::int32_t count() const { return static_cast<std::int32_t>(ranks_.size()); }
  std::int32_t rank_of(std::int32_t member) const { return ranks_[static_cast<std::size_t>(member)]; }
  /// Empty when that rank is not in the set.
  std::optional<std::int32_t> member_of(std::int32_t rank) const;

private:
  std::vector<std::int32_t> ranks_;
  std::unordered_map<std::int32_t, std::int32_t> member_of_;
};

} // namespace farandole
