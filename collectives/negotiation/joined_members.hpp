// The members that have joined. A joined member has no more tensors: the others do not wait for it, and zeros
// replace its tensors. When all members have joined, all of them take part again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/relay/member_mask.hpp"

namespace farandole {

class joined_members {
public:
  explicit joined_members(std::size_t members) : mask_(members) {}

  bool none() const { return count_ == 0; }
  std::int32_t count() const { return count_; }
  bool has(std::int32_t member) const { return mask_.has(static_cast<std::size_t>(member)); }
  /// One bit for each member.
  std::span<const std::uint64_t> words() const { return mask_.words(); }

  /// Returns whether the member had not joined before.
  bool add(std::int32_t member) {
    if (has(member))
      return false;
    mask_.add(static_cast<std::size_t>(member));
    ++count_;
    return true;
  }
  void clear() {
    mask_.clear();
    count_ = 0;
  }

private:
  member_mask mask_;
  std::int32_t count_ = 0;
};

} // namespace farandole
