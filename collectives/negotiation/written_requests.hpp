// The full requests of the members in one row, stored so that they can be compared. Nearly always they are equal,
// so the first signature is kept as the reference, and other signatures are stored only if they differ from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "collectives/fusion/group.hpp"
#include "collectives/relay/member_mask.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

class written_requests {
public:
  /// Adds the request of a member, at most one for each. The first one that is not absent becomes the reference.
  /// `members`: size of the set.
  void add(std::int32_t member, const request& asked, std::size_t members);
  /// Removes all requests. The memory is kept for later ones.
  void clear();

  bool empty() const { return groups_.empty(); }
  /// The signature of the first member that contributes, if any does.
  const signature& reference() const { return reference_; }
  /// Whether a member contributes nothing, and whether none contributes anything.
  bool any_absent() const { return any_absent_; }
  bool all_absent() const { return !any_present_; }
  /// Whether the member is absent from an allgather other than the operation that it has requested: it has no rows.
  bool has_no_rows(std::int32_t member) const;
  /// Whether any member wants no cell on the fast path for the tensor.
  bool no_fast_path() const { return no_fast_path_; }
  /// The first extents by member, if they may differ; otherwise empty.
  const std::vector<std::int64_t>& first_dims() const { return first_dims_; }
  /// Which of its devices each member has the tensor on, by member; empty: all have it on their first one.
  const std::vector<std::uint8_t>& devices() const { return devices_; }
  /// The distinct groups that were named (0: no group); more than one if members disagree.
  const std::vector<group_claim>& groups() const { return groups_; }
  /// Whether members differ in more than a first extent or a device, which may differ.
  bool differ() const;
  /// The signature of a member, which must have asked.
  signature signature_of(std::int32_t member) const;

private:
  struct absent_members {
    farandole::signature signature;
    member_mask members;
  };

  void add_absent(std::int32_t member, const signature& asked, std::size_t members);
  void add_reference(std::int32_t member, const signature& asked, std::size_t members);
  /// Stores the first extent of a member, if it may differ and the member fits the reference.
  void note_rows(std::int32_t member, const signature& asked);
  /// Whether those that contribute gather rows.
  bool gathers() const;
  /// Whether those that contribute gather rows of which a member that is absent from this operation has none.
  bool lacks_rows(const signature& absent) const;

  signature reference_; ///< valid if has_reference_
  bool has_reference_ = false;
  std::vector<std::int64_t> first_dims_;
  std::vector<std::uint8_t> devices_;
  std::vector<std::pair<std::int32_t, signature>> others_; ///< members that differ from the reference
  /// Members that are absent, by signature, of which there is nearly always one. They fit the operation that they have
  /// requested, and the gathering of the indices of a sparse reduction, so they are compared when there is a reference.
  std::vector<absent_members> absent_;
  std::vector<group_claim> groups_;
  bool no_fast_path_ = false;
  bool any_absent_ = false;
  bool any_present_ = false;
};

} // namespace farandole
