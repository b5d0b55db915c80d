// The requests that a relay has yet to send to its parent. An id that all members below have requested first
// waits for the rest of its bucket, if it is in one (bucket_accumulator.hpp). A message waits a limited time for
// the answer to the previous one; requests that become ready in the meantime go up in the same message.
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
  /// `ranks`: the relay's own rank and those below it, in the set; global and ascending. `hold`: maximum time
  /// that a message waits for the answer to the previous one.
  relay_outbox(std::vector<std::int32_t> ranks, std::chrono::nanoseconds hold);

  // ---- in

  /// `members` have requested the tensor.
  void put(std::uint32_t id, const member_mask& members);
  void put(request asked, const member_mask& members);
  /// All members below have requested `id`, so it may wait for its bucket. `members`: those whose requests have
  /// not gone up yet.
  void put_complete(std::uint32_t id, const member_mask& members, std::chrono::nanoseconds current_time);
  /// Passes the message of this rank on unchanged.
  void put_apart(std::int32_t rank, const requests& batch);

  // ---- buckets

  // These functions forward to the bucket accumulator and put the ids that it returns.

  /// The ids of a bucket that is in use or was dissolved recently. Null if it is unknown.
  const bucket_accumulator::ids* find(std::uint32_t bucket) const { return accumulator_.find(bucket); }
  /// Whether the id waits for the rest of its bucket when it is ready.
  bool takes(std::uint32_t id) const { return accumulator_.takes(id); }
  /// Whether the id is ready and waits now.
  bool holds(std::uint32_t id) const { return accumulator_.holds(id); }
  void add(const bucket& planned) { put_all(accumulator_.add(planned)); }
  void dissolve(std::uint32_t bucket) { put_all(accumulator_.dissolve(bucket)); }
  /// End buckets, so that their ready ids go up now: the bucket of `id`, all buckets, or those whose ids have
  /// waited too long.
  void flush_bucket(std::uint32_t id) { put_all(accumulator_.flush_bucket(id)); }
  void flush_all() { put_all(accumulator_.flush_all()); }
  void flush_overdue(std::chrono::nanoseconds current_time) { put_all(accumulator_.overdue(current_time)); }

  // ---- out

  /// A schedule has answered the tensor of this id, or name.
  void answered(std::uint32_t id) { unanswered_.erase(id); }
  void answered(const std::string& name) { unanswered_names_.erase(name); }
  /// Removes and returns the message that goes up now; empty if there is none.
  gathered due(std::chrono::nanoseconds current_time);
  /// When to call due() or flush_overdue() again.
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
  bucket_accumulator accumulator_;
  std::vector<ready_ids> ready_ids_;
  gathered ready_; ///< the next message, without the ids of ready_ids_
  std::chrono::nanoseconds last_sent_{0};
  std::unordered_set<std::uint32_t> unanswered_;     ///< ids of the last message, unanswered so far
  std::unordered_set<std::string> unanswered_names_; ///< likewise, names of full requests
};

} // namespace farandole
