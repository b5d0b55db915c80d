#include "collectives/negotiation/member_ranks.hpp"

#include <cassert>
#include <utility>

namespace farandole {

member_ranks::member_ranks(std::vector<std::int32_t> ranks) : ranks_(std::move(ranks)) {
  assert(!ranks_.empty());
  for (std::int32_t member = 0; member < count(); ++member)
    member_of_.emplace(rank_of(member), member);
}

std::optional<std::int32_t> member_ranks::member_of(std::int32_t rank) const {
  const auto found = member_of_.find(rank);
  return found == member_of_.end() ? std::nullopt : std::optional{found->second};
}

} // namespace farandole
