// The buckets on the leader. Requests of relays for a bucket are counted once for all ids of the bucket. They are
// written to the rows of the request table when all relayed members have asked, or as soon as anything happens to
// one of the ids alone. Invariant: whenever the rows are read, they contain all requests. So outside this class a
// request for a bucket is equivalent to requests for its ids.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "collectives/negotiation/bucket_planner.hpp"
#include "collectives/negotiation/request_table.hpp"
#include "collectives/relay/dissolved_buckets.hpp"
#include "collectives/relay/member_mask.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

class bucket_coordinator {
public:
  using ids = std::vector<std::uint32_t>;
  /// The result of a relay's request for a bucket.
  enum class count : std::uint8_t {
    waiting,  ///< counted; members below other relays are missing
    complete, ///< all relayed members have asked; the caller must count them in the bucket's rows
    in_rows,  ///< not counted; the caller must count the members in the bucket's rows
    repeated, ///< some of the members had asked before: the caller must dissolve the bucket and count its ids
  };

  /// `buckets`: maximum number in a step; 0: none. `relayed`: all members that relays speak for.
  bucket_coordinator(std::size_t buckets, member_mask relayed);

  // ---- asking

  bool is_open(std::uint32_t bucket) const { return open_.contains(bucket); }
  /// The ids of a bucket that is open or was dissolved recently. Null if it is unknown.
  const ids* find(std::uint32_t bucket) const;
  /// Processes the request of a relay for an open bucket, for all `members` of its branch.
  count add(std::uint32_t bucket, const member_mask& members, const request_table& rows,
            std::chrono::nanoseconds current_time);

  // ---- in rows. While a member waits in a bucket, other relayed members are missing, so writing its request to
  // the rows never completes a row.

  /// Moves requests that have waited in a bucket for longer than `limit` to the rows, because only the rows
  /// record which members are missing.
  void spell_out_late(request_table& rows, std::chrono::nanoseconds current_time,
                      std::chrono::nanoseconds limit);
  /// A member joins: moves all waiting requests to the rows, and excludes the current step from planning.
  void interrupt(request_table& rows);
  /// Ends an open bucket, because it was not requested as planned or one of its ids leaves it. Returns its ids.
  ids dissolve(std::uint32_t bucket, request_table& rows);

  // ---- planning

  /// All members have requested `id`, which is in no bucket. The first request came at `since`.
  void watch(std::uint32_t id, std::size_t bytes, std::chrono::nanoseconds since,
             std::chrono::nanoseconds current_time);
  /// The id, which is in no bucket, was forgotten or must not be in a bucket.
  void forget(std::uint32_t id);
  /// Plans new buckets in addition to the existing ones. The caller must pass each of them to open().
  std::vector<bucket> plan();
  /// `rows`: the rows of the bucket's ids.
  void open(const bucket& planned, std::vector<request_table::row_id> rows);

private:
  struct open_bucket {
    bucket_coordinator::ids ids;
    std::vector<request_table::row_id> rows; ///< of the ids
    /// Relayed members that have requested the whole bucket. While it is not empty, the bucket's rows contain no
    /// relayed member.
    member_mask asked;
    std::chrono::nanoseconds since{0}; ///< time of the first request in `asked`
    bool in_rows = false;              ///< its rows may contain relayed members
  };
  static void spell_out(open_bucket& bucket, request_table& rows);
  bool any_in_rows(const open_bucket& bucket, const request_table& rows) const;

  member_mask relayed_;
  bucket_planner planner_;
  std::unordered_map<std::uint32_t, open_bucket> open_;
  dissolved_buckets dissolved_;
};

} // namespace farandole
