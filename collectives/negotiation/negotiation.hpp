// Negotiation: the leader decides when a tensor may move. A tensor may move when every member of the set has
// requested it, with signatures that agree. This class implements the leader's side of negotiation.capnp: requests
// go in, a result comes out. One object serves one process set in one generation.
//
// It relies on the following. Links preserve order, and a member has at most one request for a name in flight.
// - A member sends an id only for exactly the name, signature and group of the full request for which it received
//   the id. Every other request is sent in full.
// - A member answers a question about an id with the full request of the operation that it has pending under that
//   id, even after it was told to forget the id. If no operation is pending under the id, it sends no answer.
// - A member requests a tensor that is on the fast path only together with the `left` entry for its id.
// - A member that joins leaves all cells that it has been told of, and has sent full requests for the operations
//   that it had pending there.
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
#include "collectives/relay/member_mask.hpp"
#include "collectives/relay/relay_branches.hpp"
#include "messages/wire/gathered.hpp"
#include "messages/wire/negotiation.hpp"
#include "messages/wire/stalls.hpp"

namespace farandole {

struct negotiation_options {
  std::vector<std::int32_t> members; ///< global ranks, by position in the set
  std::size_t cache_capacity = 1024; ///< ids at a time; 0: all requests are sent by name
  fast_path_options fast_path;
  bool keeps_sets = false;                 ///< this is the global set, which decides changes of process sets
  std::vector<relay_branch> branches = {}; ///< of relays; if there are any, `members` must ascend
  std::size_t buckets = 3;                 ///< maximum number of buckets for relays; 0: none
  std::size_t inline_bytes = 0;            ///< largest tensor that travels with its request; 0: none
};

class negotiation {
public:
  explicit negotiation(const negotiation_options& options);

  /// Processes a message of `rank` (global). `current_time` must not decrease between calls.
  negotiation_result receive(std::int32_t rank, const requests& message,
                             std::chrono::nanoseconds current_time);

  /// Processes a message of `relay` (global), except its `apart` entries: the caller then passes each of them to
  /// receive() as a message of its member.
  negotiation_result receive(std::int32_t relay, const gathered& message,
                             std::chrono::nanoseconds current_time);
  /// Whether `relay` may speak for `rank`.
  bool speaks_for(std::int32_t relay, std::int32_t rank) const;

  /// The tensors that have waited longer than `limit`, oldest first.
  std::vector<stalled_tensor> stalled(std::chrono::nanoseconds current_time, std::chrono::nanoseconds limit);

  /// Ends the set in order. Later calls decide nothing.
  negotiation_result end();

  bool ended() const { return ended_; }
  /// The position in the set of a global rank, if it is a member.
  std::optional<std::int32_t> member_of(std::int32_t rank) const {
    return request_table_.members().member_of(rank);
  }
  /// Number of ids in use, for metrics.
  std::size_t ids() const { return ids_.size(); }

private:
  void take_buckets(negotiation_step& step, const std::vector<std::uint32_t>& buckets);
  void take_ids(negotiation_step& step, const std::vector<std::uint32_t>& ids);
  void take_full(negotiation_step& step, const request& asked);
  void take_withdrawal(negotiation_step& step, const std::string& name);
  void take_join(negotiation_step& step);
  void take_change(negotiation_step& step, const set_change& change);
  void take_fault(negotiation_step& step, const set_fault& fault);
  // The same for many members at once, from the message of a relay.
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
