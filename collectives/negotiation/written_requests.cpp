#include "collectives/negotiation/written_requests.hpp"

#include <algorithm>

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

} // namespace

void written_requests::add(std::int32_t member, const request& asked, std::size_t members) {
  if (empty()) {
    reference_ = asked.signature;
    if (free_first(asked.signature))
      first_dims_.assign(members, 0);
  } else if (!alike(reference_, asked.signature)) {
    others_.emplace_back(member, asked.signature);
  }
  if (!first_dims_.empty() && !asked.signature.shape.empty())
    first_dims_[static_cast<std::size_t>(member)] = asked.signature.shape[0];
  if (asked.device != 0)
    devices_.resize(members);
  if (!devices_.empty())
    devices_[static_cast<std::size_t>(member)] = asked.device;
  const group_claim claim{asked.group, asked.group_size};
  if (std::find(groups_.begin(), groups_.end(), claim) == groups_.end())
    groups_.push_back(claim);
  no_fast_path_ |= asked.no_fast_path;
}

void written_requests::clear() {
  first_dims_.clear();
  devices_.clear();
  others_.clear();
  groups_.clear();
  no_fast_path_ = false;
}

signature written_requests::signature_of(std::int32_t member) const {
  for (const auto& [other, signature] : others_)
    if (other == member)
      return signature;
  auto result = reference_;
  if (!first_dims_.empty())
    result.shape[0] = first_dims_[static_cast<std::size_t>(member)];
  return result;
}

} // namespace farandole
