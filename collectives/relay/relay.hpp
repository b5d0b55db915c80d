// What a relay sends up of what it hears from below. A tensor that all members below have asked for goes up
// as one request, or waits for the rest of its bucket (relay_outbox.hpp) to go up with that as one word;
// what waits for others goes up after a while, so that the leader can name who is late;
// whatever else a member says goes up as it was said. One object serves one process set in one generation.
//
// It may forget anything but what has not gone up: the leader takes one request of a whole subtree and many
// of its members for the same.
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
  std::vector<std::int32_t> ranks;    ///< members of the set here and below, global and ascending
  std::vector<relay_branch> branches; ///< the relays among the children
  /// How long what waits for others may be held: longer than ranks of a job are usually apart. Full requests
  /// are rare once training runs, and a member that sends one where others send an id is found out only when
  /// it goes up.
  std::chrono::nanoseconds full_patience = std::chrono::milliseconds(2);
  std::chrono::nanoseconds id_patience = std::chrono::milliseconds(50);
  /// The same of an id in a bucket: the ids of one are not further apart than its own patience.
  std::chrono::nanoseconds bucket_patience = std::chrono::milliseconds(150);
  /// How long a message may wait for the answer to the one before. What becomes ready meanwhile goes up with
  /// it; a caller that waits for one tensor after the other never waits here.
  std::chrono::nanoseconds hold = std::chrono::milliseconds(2);
};

class relay {
public:
  explicit relay(relay_rules rules);

  /// From a member here or directly below. An error: what it sent cannot be, and nothing of it was taken.
  error take(std::int32_t rank, const requests& batch, std::chrono::nanoseconds current_time);
  /// From a relay below.
  error take(std::int32_t sender, const gathered& batch, std::chrono::nanoseconds current_time);
  /// From above, before anybody below has heard it.
  void hear(const schedule& plan);

  /// What goes up now; empty when nothing does.
  gathered due(std::chrono::nanoseconds current_time);
  /// When to ask again, if nothing comes before.
  std::optional<std::chrono::nanoseconds> wake_at();

private:
  struct id_row {
    member_mask held; ///< have asked; not gone up
    member_mask sent; ///< have asked, and that has gone up
    std::chrono::nanoseconds since{0};
  };
  struct form {
    request asked_request;
    member_mask held;
  };
  struct full_row {
    std::vector<form> forms;
    member_mask held; ///< in any form
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
  std::deque<held_since<std::uint32_t>> held_ids_;        ///< oldest first; some have gone up since
  std::deque<held_since<std::uint32_t>> held_in_buckets_; ///< likewise
  std::deque<held_since<std::string>> held_full_;         ///< likewise
  relay_outbox outbox_;
};

} // namespace farandole
