#include "actors/gpu/launch_clock.hpp"

#include <algorithm>
#include <utility>

namespace farandole {

namespace {

bool have_common_members(const std::vector<std::int32_t>& ranks, const std::vector<std::int32_t>& others) {
  const auto is_in_both = [&](std::int32_t rank) { return std::ranges::binary_search(others, rank); };
  return std::ranges::any_of(ranks, is_in_both);
}

} // namespace

void launch_clock::open(std::uint32_t set, std::vector<std::int32_t> ranks) {
  std::ranges::sort(ranks);
  sets_[set] = {std::move(ranks)};
}

std::vector<set_launches> launch_clock::next(std::uint32_t set) {
  std::vector<set_launches> before;
  auto& own = sets_[set];
  for (const auto& [number, other] : sets_)
    if (number != set && other.scheduled > 0 && have_common_members(own.ranks, other.ranks))
      before.push_back({number, other.scheduled});
  ++own.scheduled;
  return before;
}

} // namespace farandole
