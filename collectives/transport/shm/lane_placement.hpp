// Keeps the lanes of one host from crowding on some cores while others idle: each says in the segment where it
// is, and goes elsewhere as core_placement tells it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "collectives/transport/shm/shm_segment.hpp"
#include "collectives/transport/wait/core_placement.hpp"

namespace farandole {

class lane_placement {
public:
  /// `cores`: how many the members of this host may use.
  lane_placement(std::shared_ptr<shm_segment> shared, std::uint32_t rank, double cores);

  /// The calling thread, always the same, begins with what starts at this step, alike on all members. It says
  /// where it is.
  void begin(std::uint64_t step);

  /// Moves to another core when this one has its share of members of lower rank; and, where there is a core
  /// for each, when some member has not begun although it was woken with the others: it may be waiting for
  /// this very core. A few cache lines are read until all have begun and this member is not crowded, then
  /// nothing.
  void look();

private:
  struct sight {
    bool missing = false; ///< some member has not begun
    core_placement::crowd others;
  };
  sight see() const;
  std::uint64_t place_here() const;

  const std::shared_ptr<shm_segment> segment_;
  const std::uint32_t rank_;
  const core_placement placement_;
  std::uint32_t step_ = 0;
  bool settled_ = true;
  bool moved_for_late_ = false;
  int moves_ = 0;
  std::chrono::steady_clock::time_point begun_;
};

} // namespace farandole
