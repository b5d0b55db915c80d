// Where a member keeps what is ready, and a relay what is ready below it, until the rest of its bucket is.
// What comes off the accumulator goes up: a whole bucket by its number, or single ids, because they have waited too
// long or something must not overtake them. A bucket that came off in pieces is used no more: the leader, which
// sees the pieces, dissolves it for all.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "collectives/relay/dissolved_buckets.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

class bucket_accumulator {
public:
  using ids = std::vector<std::uint32_t>;

  /// The leader has planned it. What stood under its ids before comes off.
  ids add(const bucket& planned);
  /// The leader has dissolved it.
  ids dissolve(std::uint32_t bucket);

  /// What a bucket stands for: also one that was dissolved lately. Null: nobody planned it.
  const ids* find(std::uint32_t bucket) const;
  /// Whether the id waits for others when it is ready, and whether it does so now.
  bool takes(std::uint32_t id) const { return place_of_.contains(id); }
  bool holds(std::uint32_t id) const;
  /// All below have asked for it, and takes() says yes. The bucket that is whole by it, if one is.
  std::optional<std::uint32_t> put(std::uint32_t id, std::chrono::nanoseconds current_time);

  /// Something of this id goes up by itself: what is here of its bucket goes first.
  ids let_go(std::uint32_t id);
  /// Something must not overtake what is here.
  ids let_all_go();
  /// What has waited too long.
  ids overdue(std::chrono::nanoseconds current_time);
  /// When something will have.
  std::optional<std::chrono::nanoseconds> wake_at() const;

private:
  struct standing {
    ids all;
    std::vector<bool> ready; ///< by position in `all`
    std::size_t count = 0;   ///< that are ready
    std::chrono::nanoseconds since{0};
    std::chrono::nanoseconds patience{0};
  };
  struct place {
    std::uint32_t bucket = 0;
    std::size_t position = 0;
  };
  /// The bucket is used no more; what was ready of it.
  ids take_down(std::uint32_t bucket);

  std::unordered_map<std::uint32_t, standing> standing_; ///< by bucket
  std::unordered_map<std::uint32_t, place> place_of_;    ///< by id
  dissolved_buckets memory_;
};

} // namespace farandole
