// A process set on several hosts as two levels. Members with the same position on their hosts form a
// cross-host group. There are as many cross-host groups as the smallest host has members, so every group has
// one member on each host. On hosts with more members, the members at the remaining positions take part on
// their own host only. A bundle is cut into pieces, and each piece into one share for each cross-host group.
// Only the members of a group carry its share between the hosts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace farandole {

struct hierarchy {
  std::vector<std::vector<std::int32_t>> hosts; ///< ranks within the set, in order; hosts by their first rank
  std::size_t host = 0;                         ///< index of this member's host
  std::size_t position = 0;                     ///< this member's position on its host
  std::size_t cross_host_groups = 1;

  /// `identities` names the members' hosts, by rank within the set.
  static hierarchy of(std::span<const std::string> identities, std::int32_t rank);

  const std::vector<std::int32_t>& neighbours() const { return hosts[host]; }
  bool in_cross_host_group() const { return position < cross_host_groups; }
  /// Number of members on all hosts.
  std::size_t members() const;
  /// Ranks within the set of this member's cross-host group, by host. Requires in_cross_host_group().
  std::vector<std::int32_t> cross_host_group() const;
  /// Whether, for each power of two below the number of members, the members whose ranks differ in that bit
  /// are either all neighbours or all in the same cross-host group. Vector halving and distance doubling over
  /// two levels requires this.
  bool splits_by_bits() const;
};

/// How a stream of bytes is cut into pieces and shares. All pieces but the last are full, so the concatenated
/// shares of one cross-host group form a stream that is cut every `share_bytes`.
struct share_plan {
  struct range {
    std::size_t from;
    std::size_t bytes; ///< 0 past the stream's end
  };

  std::size_t cross_host_groups = 1;
  std::size_t share_bytes = 0;
  std::size_t pieces = 0;

  /// Shares have equal sizes of at most `most_bytes`. The size is a multiple of `unit`, so that a small
  /// stream uses few cross-host groups and no element is split.
  static share_plan of(std::size_t bytes, std::size_t cross_host_groups, std::size_t most_bytes,
                       std::size_t unit);

  /// The range of a piece, or of a share, in a stream of `bytes`.
  range piece(std::size_t number, std::size_t bytes) const;
  range share(std::size_t number, std::size_t cross_host_group, std::size_t bytes) const;
};

} // namespace farandole
