#include "collectives/relay/relay_branches.hpp"

#include <cassert>
#include <utility>

namespace farandole {

relay_branches::relay_branches(std::vector<std::int32_t> ranks, std::span<const relay_branch> branches)
    : ranks_(std::move(ranks)), relayed_(ranks_.size()) {
  for (const auto& branch : branches) {
    auto mask = mask_of(ranks_, std::span(branch.ranks));
    assert(mask && "a relay speaks for members");
    relayed_.add(*mask);
    by_relay_.emplace(branch.relay, std::move(*mask));
  }
}

const member_mask* relay_branches::find(std::int32_t relay) const {
  const auto found = by_relay_.find(relay);
  return found == by_relay_.end() ? nullptr : &found->second;
}

std::optional<member_mask> relay_branches::named(std::int32_t relay, const rank_runs& runs) const {
  const auto* branch = find(relay);
  if (!branch)
    return std::nullopt;
  if (runs.empty())
    return *branch;
  auto members = mask_of(ranks_, runs);
  return members && members->within(*branch) ? members : std::nullopt;
}

} // namespace farandole
