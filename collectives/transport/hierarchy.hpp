// A set on several hosts seen in two levels. Members of equal place on their hosts form a cross-host group; there are
// as many cross-host groups as the smallest host has members, so every cross-host group has one member on each host, and where
// hosts are uneven the places beyond take part on their own host only. A bundle is cut into pieces, each
// piece into one share a cross-host group: the cross-host group carries its share between the hosts, and nobody else does.
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
  std::size_t host = 0;                         ///< this member's
  std::size_t place = 0;                        ///< this member's on its host
  std::size_t cross_host_groups = 1;

  /// `identities` of the members' hosts, by rank within the set.
  static hierarchy of(std::span<const std::string> identities, std::int32_t rank);

  const std::vector<std::int32_t>& neighbours() const { return hosts[host]; }
  bool in_cross_host_group() const { return place < cross_host_groups; }
  /// On all hosts.
  std::size_t members() const;
  /// Ranks within the set of this member's cross-host group, by host. Only for who is in one.
  std::vector<std::int32_t> cross_host_group() const;
  /// Whether, for each power of two, all members and those whose rank differs by this bit are neighbours, or
  /// all are of one cross-host group: what vector halving and distance doubling needs of two levels.
  bool splits_by_bits() const;
};

/// How a stream of bytes is cut into pieces and shares. All but the last piece are full, so the shares of one
/// cross-host group, one after the other, are a stream that is cut every `share_bytes`.
struct share_plan {
  struct range {
    std::size_t from;
    std::size_t bytes; ///< 0 past the stream's end
  };

  std::size_t cross_host_groups = 1;
  std::size_t share_bytes = 0;
  std::size_t pieces = 0;

  /// Shares are of equal size, of at most `most_bytes`, and a multiple of `unit`, so that small streams need
  /// few cross-host groups and no element is split.
  static share_plan of(std::size_t bytes, std::size_t cross_host_groups, std::size_t most_bytes,
                       std::size_t unit);

  /// Of a stream of `bytes`.
  range piece(std::size_t number, std::size_t bytes) const;
  range share(std::size_t number, std::size_t cross_host_group, std::size_t bytes) const;
};

} // namespace farandole
