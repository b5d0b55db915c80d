// What a member shows of a tensor when its callers run the collective themselves: where its staged bytes
// stand, a place in its result heap for what comes to it, and how many rows are for which member. And what a member
// makes of all row descriptors: how much comes from whom, and, when every member's place is large enough, which bytes
// it writes into the others' places. Plain tables; caller_collective moves the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/transport/shm/checked_words.hpp"
#include "messages/values/error.hpp"
#include "messages/values/signature.hpp"

namespace farandole {

/// Words of a row descriptor among so many members.
constexpr std::size_t notice_words(std::size_t members) {
  return 3 + members;
}

/// Where a member wants what comes to it.
struct row_destination {
  /// As `at`: the member can write into no result heap, so none is used.
  static constexpr std::uint64_t no_heap = ~std::uint64_t{0};
  std::uint64_t at = 0;    ///< in its result heap
  std::uint64_t bytes = 0; ///< that it has there; 0: none
};

/// Of one member, as words: its staged bytes, its place, then rows for each member, in rank order.
class row_descriptor {
public:
  explicit row_descriptor(std::size_t members) : words_(notice_words(members)) {}
  /// `staged_at`: in its staging memory. `rows`: an alltoall's row descriptor deals the rows out; an allgather's
  /// gives all of them to everybody; that of any other operation has none.
  row_descriptor(std::uint64_t staged_at, const row_destination& place, std::span<const std::int64_t> rows,
                 std::size_t members);

  std::uint64_t staged_at() const { return words_[0]; }
  row_destination place() const { return {words_[1], words_[2]}; }
  std::uint64_t rows_for(std::uint32_t member) const { return words_[3 + member]; }

  std::span<const std::uint64_t> words() const { return words_; }
  std::span<std::uint64_t> words() { return words_; }

private:
  std::vector<std::uint64_t> words_;
};

/// What comes to one member, and what it has for the others, of an operation that gathers rows or deals them
/// out.
struct row_plan {
  /// It writes them into that member's place.
  struct peer_write {
    std::uint32_t member;
    std::size_t from; ///< in this member's tensor
    std::uint64_t at; ///< in that member's result heap
    std::size_t bytes;
  };
  std::vector<std::int64_t> rows;      ///< that come from each member
  std::vector<std::size_t> received;   ///< bytes, from each member
  std::vector<std::size_t> sent;       ///< bytes, to each member
  std::size_t bytes = 0;               ///< of the output
  std::size_t longest = 0;             ///< the most bytes that any member has for another
  bool placed = false;                 ///< every member has a place that is large enough; alike on all
  std::vector<peer_write> peer_writes; ///< if placed; from the next member on, and this member's own last
};

/// `all`: the members' row descriptors, by rank, copied out of shared memory; this member's own is what it has made
/// itself. `unknown` when they cannot be true.
expected<row_plan> plan_rows(operation op, std::span<const row_descriptor> all, std::uint32_t rank,
                             std::size_t row_bytes);

} // namespace farandole
