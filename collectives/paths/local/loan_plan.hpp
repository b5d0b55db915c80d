// Who lends what to whom in an alltoall whose members copy straight out of each other's memory: a plain
// table, made by each member for itself from what it knows of the bundle. The place of an entry among what a
// member lends is known to those who take it; its address is told them through the window.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/paths/path.hpp"

namespace farandole {

struct loan_plan {
  struct lent {
    const std::byte* from;
    std::size_t bytes;
  };
  /// From memory of this member to memory of this member; may be where it is already.
  struct kept {
    const std::byte* from;
    std::byte* to;
    std::size_t bytes;
  };
  struct taken {
    std::uint32_t member;
    std::size_t index; ///< among what that member lends
    std::byte* to;
    std::size_t bytes;
  };

  std::vector<lent> lends; ///< for each part, for each member; also where it has nothing
  std::vector<kept> keeps;
  std::vector<taken> takes; ///< from the next member on, so that not all read the same one at once
};

/// Whether the bundle should be copied straight: it is an alltoall, some member has `least_bytes` of a tensor
/// for another (0: never), and `room` bytes hold the addresses. The answer is the same on all members. An
/// allgather goes better through the window: there its bytes are packed once, and warm for all who read them.
bool worth_lending(const work& bundle, std::size_t members, std::size_t least_bytes, std::size_t room);

/// Of a bundle that is worth it.
loan_plan plan_loans(const work& bundle, std::uint32_t rank, std::uint32_t members);

} // namespace farandole
