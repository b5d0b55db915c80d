// What a member shows of a tensor of which rows go to others: where it stands, how many rows of it are for
// whom, and a place in its arena for what comes to it. And what a member makes of all notices: which bytes it
// writes into the others' places, and, when its own place is too small or it has none, which bytes it copies
// out of the others' memory. Plain tables; the copying is the board's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/paths/local/checked_words.hpp"
#include "messages/error.hpp"
#include "messages/signature.hpp"

namespace farandole {

/// Words of a notice among so many members.
constexpr std::size_t notice_words(std::size_t members) {
  return 3 + members;
}

/// Bytes of a notice, its checksum and the mark of who has taken included.
constexpr std::size_t notice_bytes(std::size_t members) {
  return 16 + checked_bytes(notice_words(members));
}

/// Of one member: its tensor's address in its process, its place, then rows for each member, in rank order.
using notice = std::vector<std::uint64_t>;

/// Where a member wants what comes to it.
struct notice_place {
  std::uint64_t at = 0;    ///< in its arena
  std::uint64_t bytes = 0; ///< that it has there; 0: none
};

/// An alltoall's notice deals the rows out; an allgather's gives all of them to everybody.
notice make_notice(const std::byte* tensor, const notice_place& place, std::span<const std::int64_t> rows);

/// What one member does.
struct taking {
  /// It copies them, from the next member on, so that not all read the same one at once.
  struct piece {
    std::uint32_t member;
    std::uint64_t from; ///< an address in that member's process
    std::size_t at;     ///< in this member's output
    std::size_t bytes;
  };
  /// It writes them, in the same order.
  struct gift {
    std::uint32_t member;
    std::uint64_t from; ///< an address in this process
    std::uint64_t at;   ///< in that member's arena
    std::size_t bytes;
  };
  std::vector<std::int64_t> rows; ///< that come from each member
  std::size_t bytes = 0;          ///< of the output
  bool spoilt = false;            ///< could not be planned: the others are given nothing
  bool placed = false;            ///< the others write into its place: it copies its own rows alone
  std::vector<piece> pieces;
  std::vector<gift> gifts;
};

/// `all`: the members' notices, by rank, copied out of shared memory; this member's own is what it has made
/// itself, for its addresses are used here. `unknown` when they cannot be true.
expected<taking> plan_taking(operation what, std::span<const notice> all, std::uint32_t rank,
                             std::size_t row_bytes);

} // namespace farandole
