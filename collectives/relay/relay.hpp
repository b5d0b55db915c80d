// A relay collects the requests of the members on its host and below it, and decides when to send them to its
// parent in the relay tree ("up").
// - A tensor that all members below have requested goes up as one request. If it is in a bucket, it first waits
//   for the rest of the bucket (relay_outbox.hpp), which then goes up as a single number.
// - A request that other members below have not made yet goes up after a timeout, so that the leader can name
//   the late ranks.
// - Everything else that a member sends goes up unchanged.
// One object serves one process set in one generation.
//
// The relay may discard any state except requests that have not gone up: to the leader, one request for a whole
// subtree and separate requests for its members mean the same.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collectives/relay/member_mask.hpp"
#include "collectives/relay/relay_branches.hpp"
#include "collectives/relay/relay_outbox.hpp"
#include "messages/values/error.hpp"
#include "messages/wire/gathered.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

struct relay_rules {
  std::vector<std::int32_t> ranks;    ///< this rank and those below it, in the set; global and ascending
  std::vector<relay_branch> branches; ///< the relays among the children
  /// Maximum time to hold a full request, or an id, that other members below have not requested yet. It is
  /// longer than the ranks of a job are usually apart. It is shorter for full requests: they are rare once
  /// training runs, and if a member sends a full request where the others send an id, the leader detects this
  /// only when the request goes up.
  std::chrono::nanoseconds full_patience = std::chrono::milliseconds(2);
  std::chrono::nanoseconds id_patience = std::chrono::milliseconds(50);
  /// The same for an id in a bucket. The ids of a bucket are at most the bucket's own patience apart.
  std::chrono::nanoseconds bucket_patience = std::chrono::milliseconds(150);
  /// Maximum time that a message waits for the answer to the previous message. Requests that become ready in the
  /// meantime go up in the same message. A caller that waits for each tensor before it submits the next is never
  /// delayed by this.
  std::chrono::nanoseconds hold = std::chrono::milliseconds(2);
};

class relay {
public:
  explicit relay(relay_rules rules);

  /// Processes a message from this rank itself or from a member directly below. An error means that the message
  /// breaks the protocol; the relay has then ignored all of it.
  error take(std::int32_t rank, const requests& batch, std::chrono::nanoseconds current_time);
  /// The same for a message from a relay below.
  error take(std::int32_t sender, const gathered& batch, std::chrono::nanoseconds current_time);
  /// Processes a schedule from above. Must be called before the schedule is passed on to the members below.
  void apply_schedule(const schedule& plan);

  /// Removes and returns the message that goes up now; empty if there is none.
  gathered due(std::chrono::nanoseconds current_time);
  /// When to call due() again if no message arrives before.
  std::optional<std::chrono::nanoseconds> wake_at();

private:
  struct id_row {
    member_mask held; ///< members whose requests have not gone up
    member_mask sent; ///< members whose requests have gone up
    std::chrono::nanoseconds since{0};
  };
  /// One version of a full request, and the members that sent it.
  struct form {
    request asked_request;
    member_mask held;
  };
  struct full_row {
    std::vector<form> forms;
    member_mask held; ///< union of the members of all forms
    std::chrono::nanoseconds since{0};
  };
  template <class Key>
  struct held_since {
    std::chrono::nanoseconds since;
    Key key;
  };

  void ask(std::uint32_t id, const member_mask& members, std::chrono::nanoseconds current_time);
  void ask(const request& request, const member_mask& members, std::chrono::nanoseconds current_time);
  void take(std::size_t member, const requests& batch, std::chrono::nanoseconds current_time);
  error unknown_bucket(std::int32_t sender, const std::vector<std::uint32_t>& buckets) const;
  void ask_for_all(const std::vector<std::uint32_t>& buckets, const member_mask& members,
                   std::chrono::nanoseconds current_time);
  void pass_on(std::size_t member, const requests& batch);
  void flush_of(std::size_t member);
  void join(std::size_t member);
  bool complete(const id_row& row) const;
  bool complete(const full_row& row) const;
  void emit(full_row& row);
  void emit_overdue(std::chrono::nanoseconds current_time);
  void emit_overdue(std::deque<held_since<std::uint32_t>>& held, std::chrono::nanoseconds since);
  void drop_stale();
  void forget(std::uint32_t id);
  std::optional<std::size_t> position(std::int32_t rank) const;

  relay_rules rules_;
  member_mask everyone_;
  member_mask joined_;
  relay_branches branches_;
  std::unordered_map<std::uint32_t, id_row> rows_;
  std::map<std::string, full_row> full_;
  std::deque<held_since<std::uint32_t>> held_ids_;        ///< oldest first; some may have gone up since
  std::deque<held_since<std::uint32_t>> held_in_buckets_; ///< likewise
  std::deque<held_since<std::string>> held_full_;         ///< likewise
  relay_outbox outbox_;
};

} // namespace farandole
