// When may a tensor move? When every member of the set has asked for it, with signatures that agree. This is
// the leader's whole side of negotiation.capnp: requests go in, a result comes out. One object serves one
// process set in one generation.
//
// What it relies on, on the members' side (links keep order, and a member has at most one request for a name
// in flight):
// - a member sends an id only for just the name, signature and group that it sent in full to get it; all else
// in full;
// - it answers a question about an id with the full request of whatever it has pending that it sent under
// that id, also
//   after it was told to forget the id, and with nothing if nothing is pending so;
// - it sends what is on the fast path only together with the `left` of that id;
// - when it joins, it leaves all the cells it has been told of, and has asked in full for what it had there.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "collectives/negotiation/fast_path_allocator.hpp"
#include "collectives/negotiation/id_registry.hpp"
#include "collectives/negotiation/negotiation_result.hpp"
#include "collectives/negotiation/negotiation_step.hpp"
#include "collectives/negotiation/request_table.hpp"
#include "collectives/negotiation/response_builder.hpp"
#include "collectives/negotiation/set_registry.hpp"
#include "collectives/negotiation/stall.hpp"
#include "collectives/relay/member_mask.hpp"
#include "collectives/relay/relay_branches.hpp"
#include "messages/wire/gathered.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

struct negotiation_options {
  std::vector<std::int32_t> members; ///< global ranks, by position in the set
  std::size_t cache_capacity = 1024; ///< ids at a time; 0: everything travels by name
  fast_path_options fast_path;
  bool keeps_sets = false;                 ///< of the global set: process sets are changed here
  std::vector<relay_branch> branches = {}; ///< relays that speak for others; then `members` ascend
  std::size_t buckets = 3;                 ///< for them, at most; 0: none
  std::size_t inline_bytes = 0;            ///< largest tensor that travels with its request; 0: none
};

class negotiation {
public:
  explicit negotiation(const negotiation_options& options);

  /// What `rank` (global) sent, in full or by id; `now` only has to go up.
  negotiation_result receive(std::int32_t rank, const requests& message,
                             std::chrono::nanoseconds current_time);

  /// What `relay` (global) has gathered, but for what members said apart: that is received() as theirs,
  /// behind it.
  negotiation_result receive(std::int32_t relay, const gathered& message,
                             std::chrono::nanoseconds current_time);
  /// Whether `relay` may speak for `rank`.
  bool speaks_for(std::int32_t relay, std::int32_t rank) const;

  /// What has waited longer than `limit`, oldest first.
  std::vector<stall> stalled(std::chrono::nanoseconds current_time, std::chrono::nanoseconds limit);

  /// The set ends in order: nothing follows.
  negotiation_result end();

  bool ended() const { return ended_; }
  /// Ids in use, for metrics.
  std::size_t ids() const { return ids_.size(); }

private:
  void take_buckets(negotiation_step& step, const std::vector<std::uint32_t>& buckets);
  void take_ids(negotiation_step& step, const std::vector<std::uint32_t>& ids);
  void take_full(negotiation_step& step, const request& asked);
  void take_withdrawal(negotiation_step& step, const std::string& name);
  void take_join(negotiation_step& step);
  void take_change(negotiation_step& step, const set_change& change);
  void take_fault(negotiation_step& step, const set_fault& fault);
  // The same for many members, as a relay asks for them.
  void take_buckets(negotiation_step& step, std::int32_t relay, const std::vector<std::uint32_t>& buckets);
  void take_ids(negotiation_step& step, const std::vector<std::uint32_t>& ids, const member_mask& members);
  void take_full(negotiation_step& step, const request& asked, const member_mask& members);
  template <class Take>
  void take_each(negotiation_step& step, const member_mask& members, Take take);

  void count_bucket(negotiation_step& step, std::uint32_t bucket, const member_mask& members);
  void complete_bucket(negotiation_step& step, const std::vector<std::uint32_t>& ids);
  void count_ids(negotiation_step& step, const std::vector<std::uint32_t>& ids, const member_mask& members);
  void count_known(negotiation_step& step, cached_tensor& tensor);
  void complete(negotiation_step& step, request_table::row_id row);
  void turn_away(negotiation_step& step, request_table::row_id row, const request& asked);
  void plan_buckets(negotiation_step& step);

  request_table request_table_;
  relay_branches branches_;
  id_registry ids_;
  response_builder responses_;
  std::optional<set_registry> sets_;
  bool ended_ = false;
};

} // namespace farandole
