#include "collectives/negotiation/written_requests.hpp"

#include <algorithm>
#include <utility>

#include "collectives/operation.hpp"

namespace farandole {

namespace {

bool free_first(const signature& asked) {
  return row_of(asked.operation).first_dim_free() && !asked.shape.empty();
}

// Whether the signatures are equal, except for a first extent that may differ.
bool alike(const signature& reference, const signature& other) {
  if (!free_first(reference) || other.shape.empty())
    return reference == other;
  if (other.shape[0] == reference.shape[0])
    return reference == other;
  auto as_reference = other;
  as_reference.shape[0] = reference.shape[0];
  return reference == as_reference;
}

// Sparse reductions gather indices of this type, and under the name of a dense reduction nothing else does.
constexpr auto index_type = dtype::int64;

} // namespace

void written_requests::add(std::int32_t member, const request& asked, std::size_t members) {
  (asked.absent ? any_absent_ : any_present_) = true;
  if (asked.absent)
    add_absent(member, asked.signature, members);
  else
    add_reference(member, asked.signature, members);
  if (asked.device != 0)
    devices_.resize(members);
  if (!devices_.empty())
    devices_[static_cast<std::size_t>(member)] = asked.device;
  const group_claim claim{asked.group, asked.group_size};
  if (std::find(groups_.begin(), groups_.end(), claim) == groups_.end())
    groups_.push_back(claim);
  no_fast_path_ |= asked.no_fast_path;
}

void written_requests::add_absent(std::int32_t member, const signature& asked, std::size_t members) {
  auto same = std::ranges::find(absent_, asked, &absent_members::signature);
  if (same == absent_.end())
    same = absent_.insert(same, {asked, member_mask(members)});
  same->members.add(static_cast<std::size_t>(member));
  note_rows(member, asked);
}

void written_requests::add_reference(std::int32_t member, const signature& asked, std::size_t members) {
  if (!std::exchange(has_reference_, true)) {
    reference_ = asked;
    if (free_first(asked))
      first_dims_.assign(members, 0);
    for (const auto& entry : absent_)
      entry.members.for_each(
          [&](std::size_t away) { note_rows(static_cast<std::int32_t>(away), entry.signature); });
  } else if (!alike(reference_, asked)) {
    others_.emplace_back(member, asked);
  }
  note_rows(member, asked);
}

void written_requests::note_rows(std::int32_t member, const signature& asked) {
  if (!first_dims_.empty() && alike(reference_, asked))
    first_dims_[static_cast<std::size_t>(member)] = asked.shape[0];
}

void written_requests::clear() {
  absent_.clear();
  has_reference_ = any_absent_ = any_present_ = false;
  first_dims_.clear();
  devices_.clear();
  others_.clear();
  groups_.clear();
  no_fast_path_ = false;
}

bool written_requests::gathers() const {
  return has_reference_ && reference_.operation == operation::allgather;
}

bool written_requests::lacks_rows(const signature& absent) const {
  return gathers() && (absent.operation != operation::allgather ||
                       (reference_.dtype == index_type && absent.dtype != index_type));
}

bool written_requests::has_no_rows(std::int32_t member) const {
  return std::ranges::any_of(absent_, [this, member](const auto& entry) {
    return entry.members.has(static_cast<std::size_t>(member)) && lacks_rows(entry.signature);
  });
}

bool written_requests::differ() const {
  const auto is_other = [this](const auto& entry) {
    return !lacks_rows(entry.signature) && !alike(reference_, entry.signature);
  };
  return !others_.empty() || (has_reference_ && std::ranges::any_of(absent_, is_other));
}

signature written_requests::signature_of(std::int32_t member) const {
  for (const auto& [other, signature] : others_)
    if (other == member)
      return signature;
  for (const auto& entry : absent_)
    if (entry.members.has(static_cast<std::size_t>(member)))
      return entry.signature;
  auto result = reference_;
  if (!first_dims_.empty())
    result.shape[0] = first_dims_[static_cast<std::size_t>(member)];
  return result;
}

} // namespace farandole
