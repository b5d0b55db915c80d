// Holds ready ids until the other ids of their bucket are ready too. A member uses it for its own ids; a relay
// uses it for the ids that all members below have requested. Ids leave the accumulator in one of two ways:
// - A complete bucket is requested by its number.
// - Ids are requested one by one, because they have waited too long or because another message must not overtake
//   them. The bucket is then no longer used here, and the leader, which sees the single ids, dissolves it for all
//   members.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "collectives/relay/dissolved_buckets.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

/// Functions that return `ids` return ready ids of buckets that they have ended. The caller must request these ids
/// one by one.
class bucket_accumulator {
public:
  using ids = std::vector<std::uint32_t>;

  /// Adds a bucket that the leader has planned. Ends older buckets that contain one of its ids.
  ids add(const bucket& planned);
  /// The leader has dissolved the bucket.
  ids dissolve(std::uint32_t bucket);

  /// The ids of a bucket that is in use, ended or was dissolved recently. Null if it is unknown.
  const ids* find(std::uint32_t bucket) const;
  /// Whether the id is in a bucket, so that it waits for the others when it is ready.
  bool takes(std::uint32_t id) const { return position_of_.contains(id); }
  /// Whether the id is ready and waits now.
  bool holds(std::uint32_t id) const;
  /// The id is ready. Requires takes() and not holds(). Returns the bucket if this completes one; its ids then no
  /// longer wait.
  std::optional<std::uint32_t> put(std::uint32_t id, std::chrono::nanoseconds current_time);

  /// A request for this id goes up by itself. Ends its bucket, whose ready ids must go up first.
  ids flush_bucket(std::uint32_t id);
  /// Ends all buckets that have ready ids, because a message must not overtake them.
  ids flush_all();
  /// Ends the buckets whose ready ids have waited longer than the bucket's patience.
  ids overdue(std::chrono::nanoseconds current_time);
  /// When overdue() will next end a bucket.
  std::optional<std::chrono::nanoseconds> wake_at() const;

private:
  struct filling {
    ids all;
    std::vector<bool> ready; ///< by position in `all`
    std::size_t count = 0;   ///< number of ready ids
    std::chrono::nanoseconds since{0};
    std::chrono::nanoseconds patience{0};
  };
  struct bucket_position {
    std::uint32_t bucket = 0;
    std::size_t position = 0;
  };
  /// Ends the bucket and returns its ready ids.
  ids take_down(std::uint32_t bucket);

  std::unordered_map<std::uint32_t, filling> filling_;             ///< by bucket
  std::unordered_map<std::uint32_t, bucket_position> position_of_; ///< by id
  dissolved_buckets memory_;
};

} // namespace farandole
