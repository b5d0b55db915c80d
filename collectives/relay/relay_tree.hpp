// The tree along which members exchange control messages. In a small job, or on one host, every member talks to
// rank 0 directly. In a large job the first rank of each host is the host's relay (on rank 0's host: the second
// rank). The members of a host talk to their relay, and the relay talks to a relay above it, so that no rank has
// more than `fan_in` hosts directly below it. Every member computes the same tree from the same welcome message.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace farandole {

struct relay_options {
  std::size_t least_members = 64; ///< minimum size of a job that has relays; 0: never
  std::size_t fan_in = 8;         ///< maximum number of hosts directly below a relay, besides its own
};

class relay_tree {
public:
  /// A tree without relays: all other members are children of rank 0.
  explicit relay_tree(std::int32_t members);
  /// `hosts`: identity of each rank's host.
  relay_tree(std::span<const std::string_view> hosts, const relay_options& options);

  std::int32_t members() const { return static_cast<std::int32_t>(parent_.size()); }
  /// -1 for rank 0, the root.
  std::int32_t parent(std::int32_t rank) const { return parent_[at(rank)]; }
  /// The ranks whose parent is `rank`.
  std::span<const std::int32_t> children(std::int32_t rank) const;
  /// This rank and all below it, ascending.
  std::vector<std::int32_t> subtree(std::int32_t rank) const;
  /// Whether `rank` is `top` or below it.
  bool below(std::int32_t top, std::int32_t rank) const;
  /// The child of `top` that is `rank` or above it; -1 if there is none.
  std::int32_t branch(std::int32_t top, std::int32_t rank) const;
  /// Whether ranks other than 0 are relays.
  bool relays() const { return relays_; }

private:
  static std::size_t at(std::int32_t rank) { return static_cast<std::size_t>(rank); }
  void hang(std::span<const std::vector<std::int32_t>> hosts, std::int32_t above, std::size_t fan_in);
  void number();

  std::vector<std::int32_t> parent_;
  std::vector<std::int32_t> children_;   ///< of all ranks, concatenated
  std::vector<std::size_t> first_child_; ///< by rank, and one past the last
  std::vector<std::int32_t> order_;      ///< ranks in preorder: each before all ranks below it
  std::vector<std::size_t> subtree_begin_,
      subtree_end_; ///< by rank: begin and end of its subtree in `order_`
  bool relays_ = false;
};

} // namespace farandole
