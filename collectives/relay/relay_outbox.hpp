// What a relay has to say to the one above, until it goes up. A tensor that all below have asked for waits
// for the rest of its bucket first, if it is in one (bucket_shelf.hpp). A message waits for the answer to the
// one before, but not for long; what becomes ready meanwhile goes up with it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "collectives/relay/bucket_accumulator.hpp"
#include "collectives/relay/member_mask.hpp"
#include "messages/wire/gathered.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

class relay_outbox {
public:
  /// `ranks`: all here and below, global and ascending. `hold`: how long a message waits for the answer to
  /// the one before.
  relay_outbox(std::vector<std::int32_t> ranks, std::chrono::nanoseconds hold);

  // ---- in

  /// `members` have asked for it.
  void put(std::uint32_t id, const member_mask& members);
  void put(request asked, const member_mask& members);
  /// All who are to ask for `id` have: it may wait for its bucket.
  void put_complete(std::uint32_t id, const member_mask& members, std::chrono::nanoseconds current_time);
  /// To be passed on as this rank said it.
  void put_apart(std::int32_t rank, const requests& said);

  // ---- buckets

  /// What a bucket stands for: also one that was dissolved lately. Null: nobody planned it.
  const bucket_accumulator::ids* find(std::uint32_t bucket) const { return shelf_.find(bucket); }
  /// Whether the id waits for others of its bucket when it is ready, and whether it does so now.
  bool takes(std::uint32_t id) const { return shelf_.takes(id); }
  bool holds(std::uint32_t id) const { return shelf_.holds(id); }
  void add(const bucket& planned) { put_all(shelf_.add(planned)); }
  void dissolve(std::uint32_t bucket) { put_all(shelf_.dissolve(bucket)); }
  /// What waits for its bucket goes up now: of the bucket of `id`, of all, or what has waited too long.
  void let_go(std::uint32_t id) { put_all(shelf_.let_go(id)); }
  void let_all_go() { put_all(shelf_.let_all_go()); }
  void let_overdue_go(std::chrono::nanoseconds current_time) { put_all(shelf_.overdue(current_time)); }

  // ---- out

  /// The tensor of this id, or name, has been answered.
  void answered(std::uint32_t id) { unanswered_.erase(id); }
  void answered(const std::string& name) { unanswered_names_.erase(name); }
  /// What goes up now; empty when nothing does.
  gathered due(std::chrono::nanoseconds current_time);
  /// When to ask again.
  std::optional<std::chrono::nanoseconds> wake_at() const;

private:
  struct ready_ids {
    member_mask members;
    std::vector<std::uint32_t> ids;
  };
  void put_all(const bucket_accumulator::ids& ids);
  rank_runs runs(const member_mask& members) const;
  bool idle() const { return ready_ids_.empty() && ready_.empty(); }
  bool all_answered() const { return unanswered_.empty() && unanswered_names_.empty(); }

  std::vector<std::int32_t> ranks_;
  member_mask everyone_;
  std::chrono::nanoseconds hold_;
  bucket_accumulator shelf_;
  std::vector<ready_ids> ready_ids_;
  gathered ready_; ///< but for ids
  std::chrono::nanoseconds last_sent_{0};
  std::unordered_set<std::uint32_t> unanswered_;     ///< ids of the last message that are in no schedule yet
  std::unordered_set<std::string> unanswered_names_; ///< likewise, of what went up in full
};

} // namespace farandole
