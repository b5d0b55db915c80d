// Who speaks with whom. In a small job, or on one host, every member speaks with rank 0. In a large one the
// first rank of each host is its relay, on the leader's host the second: the host's members speak with it,
// and it with a relay above it, so that nobody has more than `fan_in` hosts to listen to. Every member
// computes the same tree from the same welcome.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace farandole {

struct relay_options {
  std::size_t least_members = 64; ///< from so many on there are relays; 0: never
  std::size_t fan_in = 8;         ///< most hosts below one relay, next to its own
};

class relay_tree {
public:
  /// Everybody below rank 0.
  explicit relay_tree(std::int32_t members);
  /// `hosts`: identity of each rank's host.
  relay_tree(std::span<const std::string_view> hosts, const relay_options& options);

  std::int32_t members() const { return static_cast<std::int32_t>(parent_.size()); }
  /// -1 for rank 0, who leads.
  std::int32_t parent(std::int32_t rank) const { return parent_[at(rank)]; }
  /// Who speaks with this rank directly.
  std::span<const std::int32_t> children(std::int32_t rank) const;
  /// This rank and all below it, ascending.
  std::vector<std::int32_t> subtree(std::int32_t rank) const;
  /// Whether `rank` is `top` or below it.
  bool below(std::int32_t top, std::int32_t rank) const;
  /// The child of `top` that leads to `rank`, which may be the child itself; -1 where none does.
  std::int32_t branch(std::int32_t top, std::int32_t rank) const;
  /// Whether somebody other than rank 0 has members to speak for.
  bool relays() const { return relays_; }

private:
  static std::size_t at(std::int32_t rank) { return static_cast<std::size_t>(rank); }
  void hang(std::span<const std::vector<std::int32_t>> hosts, std::int32_t above, std::size_t fan_in);
  void number();

  std::vector<std::int32_t> parent_;
  std::vector<std::int32_t> children_;      ///< of all ranks, one after the other
  std::vector<std::size_t> first_child_;    ///< by rank, and one past the last
  std::vector<std::int32_t> order_;         ///< ranks, each before all that are below it
  std::vector<std::size_t> place_, behind_; ///< by rank: where its subtree lies in `order_`
  bool relays_ = false;
};

} // namespace farandole
