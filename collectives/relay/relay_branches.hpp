// The members of a process set that each relay speaks for. The leader of a set and every relay have one, to check
// the ranks that a relay names and to count them a word at a time. It does not change within a generation.
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
  /// `ranks`: the members' global ranks. If there are branches, `ranks` ascend and contain all ranks of them.
  relay_branches(std::vector<std::int32_t> ranks, std::span<const relay_branch> branches);

  bool empty() const { return by_relay_.empty(); }
  /// All members that a relay speaks for.
  const member_mask& relayed() const { return relayed_; }
  /// The members that `relay` speaks for; null if it is not a relay.
  const member_mask* find(std::int32_t relay) const;
  /// The members that `relay` names by `runs` (no runs: its whole branch). Empty if it may not speak for one of
  /// them.
  std::optional<member_mask> named(std::int32_t relay, const rank_runs& runs) const;

private:
  std::vector<std::int32_t> ranks_;
  std::unordered_map<std::int32_t, member_mask> by_relay_;
  member_mask relayed_;
};

} // namespace farandole
