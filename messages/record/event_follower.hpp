// Reads a running record as it grows: the events of all threads, merged by time. For one reader in the same process.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "messages/record/event_recorder.hpp"

namespace farandole {

class event_follower {
public:
  /// Begins with the events that are written from now on. The recorder must record, and outlive this object.
  explicit event_follower(const event_recorder& recorder);

  struct batch {
    std::vector<event> events; ///< ascending by ticks
    std::uint64_t dropped = 0; ///< events that were overwritten before they were read
  };
  /// The events since the last call, up to `last_ticks`; later ones are kept for the next call. A thread hands an
  /// operation on only after it has recorded its own part. So if `last_ticks` is not later than the call, no event of the
  /// batch is missing an earlier one of the same operation.
  batch take(std::uint64_t last_ticks);

  /// Whether take() would find events that the follower has not seen.
  bool has_news() const;

private:
  std::vector<event_ring> rings_;
  std::array<std::uint64_t, event_ring_limit> next_{}; ///< by ring: number of the next event to read
  std::vector<event> later_;                           ///< read, but later than the last call asked for
};

} // namespace farandole
