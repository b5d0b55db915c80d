// Which members of a process set each relay speaks for, so that what a relay claims for ranks can be checked
// and counted by the word. The leader of a set and every relay have one; neither changes within a generation.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "collectives/relay/member_mask.hpp"
#include "messages/wire/gathered.hpp"

namespace farandole {

class relay_branches {
public:
  /// `ranks`: the members, global; they ascend where there are branches, and hold all that stand in them.
  relay_branches(std::vector<std::int32_t> ranks, std::span<const relay_branch> branches);

  bool empty() const { return by_relay_.empty(); }
  /// All that some relay speaks for.
  const member_mask& relayed() const { return relayed_; }
  /// All that `relay` speaks for; null where it is not a relay.
  const member_mask* find(std::int32_t relay) const;
  /// The members that `relay` names by `runs` (no runs: all of its branch); empty where it may not speak for
  /// one of them.
  std::optional<member_mask> named(std::int32_t relay, const rank_runs& runs) const;

private:
  std::vector<std::int32_t> ranks_;
  std::unordered_map<std::int32_t, member_mask> by_relay_;
  member_mask relayed_;
};

} // namespace farandole
