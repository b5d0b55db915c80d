#include "collectives/negotiation/withdrawal.hpp"

#include <algorithm>

namespace farandole {

void withdrawal::keep_early(std::int32_t member, const request& asked) {
  const auto is_same_member = [&](const auto& kept) { return kept.first == member; };
  if (std::none_of(early_.begin(), early_.end(), is_same_member))
    early_.emplace_back(member, asked);
}

bool withdrawal::drop_early(std::int32_t member) {
  return std::erase_if(early_, [&](const auto& kept) { return kept.first == member; }) > 0;
}

} // namespace farandole
