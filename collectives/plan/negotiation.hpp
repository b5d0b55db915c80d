// When may a tensor move? When every member of the set has asked for it, with signatures that agree. This is
// the leader's whole side of negotiation.capnp: requests go in, a verdict comes out. One object serves one
// process set in one generation.
//
// What it relies on, on the members' side (links keep order, and a member has at most one request for a name
// in flight):
// - a member sends an id only for just the name, signature and group that it sent in full to get it; all else
// in full;
// - it answers a question about an id with the full request of whatever it has pending that it sent under
// that id, also
//   after it was told to forget the id, and with nothing if nothing is pending so;
// - it sends what is on the board only together with the `left` of that id;
// - when it joins, it leaves all the cells it has been told of, and has asked in full for what it had there.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "collectives/plan/board_ledger.hpp"
#include "collectives/plan/bucket_memory.hpp"
#include "collectives/plan/bucket_planner.hpp"
#include "collectives/plan/group.hpp"
#include "collectives/plan/member_mask.hpp"
#include "collectives/plan/response_cache.hpp"
#include "collectives/plan/set_registry.hpp"
#include "collectives/plan/stall.hpp"
#include "collectives/plan/tally.hpp"
#include "collectives/plan/verdict.hpp"
#include "messages/gathered.hpp"
#include "messages/negotiation.hpp"

namespace farandole {

struct negotiation_options {
  std::vector<std::int32_t> members; ///< global ranks, by position in the set
  std::size_t cache_capacity = 1024; ///< ids at a time; 0: everything travels by name
  board_options board;
  bool keeps_sets = false;                 ///< of the global set: process sets are changed here
  std::vector<relay_branch> branches = {}; ///< relays that speak for others; then `members` ascend
  std::size_t buckets = 3;                 ///< for them, at most; 0: none
  std::size_t inline_bytes = 0;            ///< largest tensor that travels with its request; 0: none
};

class negotiation {
public:
  explicit negotiation(const negotiation_options& options);

  /// What `rank` (global) sent, in full or by id; `now` only has to go up.
  verdict receive(std::int32_t rank, const requests& what, std::chrono::nanoseconds now);

  /// What `relay` (global) has gathered, but for what members said apart: that is received() as theirs,
  /// behind it.
  verdict receive(std::int32_t relay, const gathered& what, std::chrono::nanoseconds now);
  /// Whether `relay` may speak for `rank`.
  bool speaks_for(std::int32_t relay, std::int32_t rank) const;

  /// What has waited longer than `limit`, oldest first.
  std::vector<stall> stalled(std::chrono::nanoseconds now, std::chrono::nanoseconds limit);

  /// The set ends in order: nothing follows.
  verdict end();

  bool ended() const { return ended_; }
  /// Ids in use, for metrics.
  std::size_t ids() const { return cache_.size(); }

private:
  /// One receive().
  struct step {
    std::int32_t member; ///< who sent it, or is looked at; by position
    std::chrono::nanoseconds now;
    std::size_t expected; ///< tensors that it may make ready
    bool joins;           ///< at the end of this message
    verdict out;          ///< what came of it
  };
  /// A bucket of the planner's, as far as it is asked for.
  struct open_bucket {
    std::vector<std::uint32_t> ids;
    std::vector<tally::row_id> rows; ///< of the ids
    /// Those below relays that have asked for all of it. While there is anyone, nobody below a relay stands
    /// in its rows.
    member_mask who;
    std::chrono::nanoseconds since{0}; ///< with `who`
    bool in_rows = false;              ///< its rows may hold some who are below relays
  };
  void take_left(step& current, const std::vector<board_round>& left);
  void take_ids(step& current, const std::vector<std::uint32_t>& ids);
  void take_ids(step& current, const std::vector<std::uint32_t>& ids, const member_mask& who);
  void count_ids(step& current, const std::vector<std::uint32_t>& ids, const member_mask& who);
  void take_buckets(step& current, const std::vector<std::uint32_t>& buckets);
  void take_buckets(step& current, std::int32_t relay, const std::vector<std::uint32_t>& buckets);
  bool known(step& current, std::int32_t rank, std::uint32_t bucket) const;
  static void blame(step& current, std::int32_t rank, const std::string& what);
  void count_bucket(step& current, std::uint32_t bucket, const member_mask& who);
  void complete_bucket(step& current, std::uint32_t bucket);
  bool any_in_rows(const open_bucket& one) const;
  void spell_out(open_bucket& one);
  void dissolve(step& current, std::uint32_t bucket);
  void miss(step& current, const cached_tensor& tensor);
  void leave_bucket(step& current, const cached_tensor& tensor);
  void make_plans(step& current);
  void watch(const cached_tensor& tensor, std::chrono::nanoseconds since, const step& current);
  void take_full(step& current, const request& what, const member_mask& who);
  template <class Take>
  void one_by_one(step& current, const member_mask& who, Take take);
  std::optional<member_mask> named(std::int32_t relay, const rank_runs& runs) const;
  void count_known(step& current, cached_tensor& tensor);
  request spelled_out(const cached_tensor& tensor, std::int32_t member) const;
  void take_full(step& current, const request& what);
  void take_withdrawal(step& current, const std::string& name);
  void take_join(step& current);
  void take_change(step& current, const set_change& what);
  void take_fault(step& current, const set_fault& what);
  void refuse(step& current, std::int32_t rank, tally::row_id row);
  void turn_away(step& current, tally::row_id row, const request& what);
  void complete(step& current, tally::row_id row);
  void complete_known(step& current, cached_tensor& tensor);
  void complete_written(step& current, tally::row_id row);
  void hand_on(step& current, ready_tensor&& tensor, std::uint32_t group_size);
  void leave_groups(step& current, const std::vector<tally::group_claim>& claims);
  void release(step& current, std::size_t first);
  void fail(step& current, tally::row_id row, error reason);
  std::vector<tally::group_claim> claims_of(tally::row_id row);
  std::uint32_t give_id(step& current, tally::row_id row, const cached_tensor& tensor);
  void grant(step& current, cached_tensor& tensor);
  void drop(step& current, const cached_tensor& tensor);
  void forgotten(step& current, const cached_tensor& old);

  tally tally_;
  response_cache cache_;
  board_ledger board_;
  group_gate groups_;
  std::vector<std::uint32_t> boarded_; ///< ids with a cell
  std::optional<set_registry> sets_;
  std::unordered_map<std::int32_t, member_mask> branches_; ///< by relay
  member_mask relayed_;                                    ///< all that relays speak for
  std::optional<bucket_planner> planner_;                  ///< where there are relays
  std::unordered_map<std::uint32_t, open_bucket> buckets_;
  bucket_memory dissolved_;
  bool ended_ = false;
};

} // namespace farandole
