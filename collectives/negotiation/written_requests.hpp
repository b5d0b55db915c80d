// What members asked for in a row, where it had to be written down to be compared. Nearly always they all ask
// for the same, so one signature is kept as a reference, and only what differs from it beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "collectives/fusion/group.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

class written_requests {
public:
  /// The first of them is the reference. `members`: of the set. A member asks once.
  void add(std::int32_t member, const request& asked, std::size_t members);
  /// Room is kept for the next ones.
  void clear();

  bool empty() const { return groups_.empty(); }
  /// Of the member that asked first.
  const signature& reference() const { return reference_; }
  /// Whether any member wants no cell on the fast path for it.
  bool no_fast_path() const { return no_fast_path_; }
  /// First extents by member, where they are free.
  const std::vector<std::int64_t>& first_dims() const { return first_dims_; }
  /// The groups that were named; several when members do not agree (0: in none).
  const std::vector<group_claim>& groups() const { return groups_; }
  /// Whether members differ in more than a first extent that is free.
  bool differ() const { return !others_.empty(); }
  /// Of a member that has asked.
  signature signature_of(std::int32_t member) const;

private:
  signature reference_;
  std::vector<std::int64_t> first_dims_;
  std::vector<std::pair<std::int32_t, signature>> others_; ///< members that differ from the reference
  std::vector<group_claim> groups_;
  bool no_fast_path_ = false;
};

} // namespace farandole
