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
// - it sends what is on the board only together with the `left` of that id.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/plan/board_ledger.hpp"
#include "collectives/plan/group.hpp"
#include "collectives/plan/response_cache.hpp"
#include "collectives/plan/stall.hpp"
#include "collectives/plan/tally.hpp"
#include "collectives/plan/verdict.hpp"
#include "messages/negotiation.hpp"

namespace farandole {

struct negotiation_options {
  std::vector<std::int32_t> members; ///< global ranks, by position in the set
  std::size_t cache_capacity = 1024; ///< ids at a time; 0: everything travels by name
  board_options board;
};

class negotiation {
public:
  explicit negotiation(const negotiation_options& options);

  /// What `rank` (global) sent, in full or by id; `now` only has to go up.
  verdict receive(std::int32_t rank, const requests& what, std::chrono::nanoseconds now);

  /// What has waited longer than `limit`, oldest first.
  std::vector<stall> stalled(std::chrono::nanoseconds now, std::chrono::nanoseconds limit) const;

  bool ended() const { return ended_; }
  /// Ids in use, for metrics.
  std::size_t ids() const { return cache_.size(); }

private:
  struct step; // one receive(): who sent it, when, and what came of it
  void take_left(step& now, const std::vector<board_round>& left);
  void take_ids(step& now, const std::vector<std::uint32_t>& ids);
  void take_full(step& now, const request& what);
  void take_withdrawal(step& now, const std::string& name);
  void take_join(step& now);
  void turn_away(step& now, tally::row_id row, const request& what);
  void complete(step& now, tally::row_id row);
  void complete_known(step& now, cached_tensor& tensor);
  void complete_written(step& now, tally::row_id row);
  void replay(step& now, std::vector<std::pair<std::int32_t, request>> early);
  void grant(step& now, cached_tensor& tensor);
  void forget(step& now, std::uint32_t id);

  tally tally_;
  response_cache cache_;
  board_ledger board_;
  group_gate groups_;
  bool ended_ = false;
};

} // namespace farandole
