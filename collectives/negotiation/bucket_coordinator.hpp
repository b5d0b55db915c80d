// The leader's buckets. Relays that ask for a bucket are counted by the word, for all its ids at once, and
// written into its rows when all have asked, or as soon as anything happens to one of its ids alone. So rows
// say all there is to say whenever somebody looks at them, and whoever reads the coordinator may think of a
// bucket as of its ids.
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
  /// What a relay's request for a bucket comes to.
  enum class count : std::uint8_t {
    waiting,  ///< it is counted; members below other relays are missing
    complete, ///< all relayed members have asked, and are to be counted in the bucket's rows
    in_rows,  ///< its members are to be counted in the bucket's rows, where others wait already
    repeated, ///< some of its members had asked before: the bucket must end, and its ids be counted
  };

  /// `buckets`: in a step, at most; 0: none. `relayed`: all members below relays.
  bucket_coordinator(std::size_t buckets, member_mask relayed);

  // ---- asking

  bool is_open(std::uint32_t bucket) const { return open_.contains(bucket); }
  /// The ids of a bucket that is open, or was dissolved lately. Null: nobody planned it.
  const ids* find(std::uint32_t bucket) const;
  /// A relay asks for an open bucket, for all `members` of its branch.
  count add(std::uint32_t bucket, const member_mask& members, const request_table& rows,
            std::chrono::nanoseconds current_time);

  // ---- in rows. While somebody waits in a bucket, others below relays are missing, so no row becomes
  // complete by those that are counted in it here.

  /// Who has waited in a bucket for longer than `limit` waits in rows from now on, as only rows can say who
  /// is missing.
  void spell_out_late(request_table& rows, std::chrono::nanoseconds current_time,
                      std::chrono::nanoseconds limit);
  /// A member joins: everybody is counted in rows, and this step is not like others.
  void interrupt(request_table& rows);
  /// An open bucket ends: it was not asked for as planned, or one of its ids leaves it. Returns its ids.
  ids dissolve(std::uint32_t bucket, request_table& rows);

  // ---- planning

  /// All have asked for `id`, which is in no bucket; somebody did so first at `since`.
  void watch(std::uint32_t id, std::size_t bytes, std::chrono::nanoseconds since,
             std::chrono::nanoseconds current_time);
  /// The id, which is in no bucket, means nothing any more, or is not to be in one.
  void forget(std::uint32_t id);
  /// The buckets that are to be from now on, besides those that are; each is to be opened.
  std::vector<bucket> plan();
  /// `rows`: of the bucket's ids.
  void open(const bucket& planned, std::vector<request_table::row_id> rows);

private:
  struct open_bucket {
    bucket_coordinator::ids ids;
    std::vector<request_table::row_id> rows; ///< of the ids
    /// Relayed members that have asked for all of it. While there is anyone, no relayed member stands in its
    /// rows.
    member_mask asked;
    std::chrono::nanoseconds since{0}; ///< with `asked`
    bool in_rows = false;              ///< its rows may hold some relayed members
  };
  static void spell_out(open_bucket& bucket, request_table& rows);
  bool any_in_rows(const open_bucket& bucket, const request_table& rows) const;

  member_mask relayed_;
  bucket_planner planner_;
  std::unordered_map<std::uint32_t, open_bucket> open_;
  dissolved_buckets dissolved_;
};

} // namespace farandole
