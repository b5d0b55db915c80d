// The row descriptor that a member publishes when callers run a collective themselves: the offset of its
// staged bytes, the memory in its result heap for its result, and the number of rows for each member.
//
// plan_rows() computes from all row descriptors how many bytes a member sends to and receives from each other
// member. If the destination of every member is large enough, it also computes which bytes this member writes
// into the destinations of the others. Nothing here moves data; caller_collective does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/transport/shm/checked_words.hpp"
#include "messages/values/error.hpp"
#include "messages/values/signature.hpp"

namespace farandole {

/// Number of words of a row descriptor among `members` members.
constexpr std::size_t descriptor_words(std::size_t members) {
  return 3 + members;
}

/// The memory in a member's result heap for its result.
struct row_destination {
  /// Value of `at` of a member that has not mapped the result heaps. Then no member writes into any of them.
  static constexpr std::uint64_t no_heap = ~std::uint64_t{0};
  std::uint64_t at = 0;    ///< offset in the member's result heap
  std::uint64_t bytes = 0; ///< size of the memory; 0: none
};

/// The row descriptor of one member, as words:
/// - the offset of its staged bytes;
/// - offset and size of its destination;
/// - the number of rows for each member, in rank order.
class row_descriptor {
public:
  explicit row_descriptor(std::size_t members) : words_(descriptor_words(members)) {}
  /// `staged_at`: offset in the member's staging memory. `rows`: for alltoall the number of rows for each
  /// member; for allgather the number of all its rows, for every member; for other operations empty.
  row_descriptor(std::uint64_t staged_at, const row_destination& destination,
                 std::span<const std::int64_t> rows, std::size_t members);

  std::uint64_t staged_at() const { return words_[0]; }
  row_destination destination() const { return {words_[1], words_[2]}; }
  std::uint64_t rows_for(std::uint32_t member) const { return words_[3 + member]; }

  std::span<const std::uint64_t> words() const { return words_; }
  std::span<std::uint64_t> words() { return words_; }

private:
  std::vector<std::uint64_t> words_;
};

/// The rows that one member receives and sends in an allgather or alltoall.
struct row_plan {
  /// One copy from this member's tensor into the destination of a member.
  struct peer_write {
    std::uint32_t member;
    std::size_t from; ///< offset in this member's tensor
    std::uint64_t at; ///< offset in that member's result heap
    std::size_t bytes;
  };
  std::vector<std::int64_t> rows;      ///< number of rows received from each member
  std::vector<std::size_t> received;   ///< number of bytes received from each member
  std::vector<std::size_t> sent;       ///< number of bytes sent to each member
  std::size_t bytes = 0;               ///< size of the output
  std::size_t longest = 0;             ///< largest number in any member's `sent`
  bool placed = false;                 ///< every destination is large enough; the same on all members
  std::vector<peer_write> peer_writes; ///< if placed; starts with the next rank and ends with this member
};

/// Computes the plan of member `rank`. `all`: the row descriptors by rank, copied out of shared memory; for
/// this member, the one that it has built itself. Returns `unknown` if the row descriptors are invalid.
expected<row_plan> plan_rows(operation op, std::span<const row_descriptor> all, std::uint32_t rank,
                             std::size_t row_bytes);

} // namespace farandole
