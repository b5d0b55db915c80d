// What a member shows of a tensor that the others copy out of its memory: where it stands, and how many rows
// of it are for whom. And what a member makes of all notices: which bytes it copies, from where to where.
// Plain tables; the copying is the board's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "messages/error.hpp"
#include "messages/signature.hpp"

namespace farandole {

/// Bytes of a notice among so many members, the mark of who has taken included.
constexpr std::size_t notice_bytes(std::size_t members) {
  return 16 + sizeof(std::uint64_t) * (1 + members);
}

/// Of one member: its tensor's address in its process, then rows for each member, in rank order.
using notice_view = std::span<const std::uint64_t>;

/// An alltoall's notice deals the rows out; an allgather's gives all of them to everybody.
std::vector<std::uint64_t> make_notice(const std::byte* tensor, std::span<const std::int64_t> rows);

/// What one member copies.
struct taking {
  struct piece {
    std::uint32_t member;
    std::uint64_t from; ///< an address in that member's process
    std::size_t at;     ///< in this member's output
    std::size_t bytes;
  };
  std::vector<std::int64_t> rows; ///< that come from each member
  std::size_t bytes = 0;          ///< of the output
  std::vector<piece> pieces;      ///< from the next member on, so that not all read the same one at once
};

/// `all`: the members' notices, by rank. `unknown` when they cannot be true.
expected<taking> plan_taking(operation what, std::span<const notice_view> all, std::uint32_t rank,
                             std::size_t row_bytes);

} // namespace farandole
