// Keeps the lanes of one host from sharing cores while other cores idle. Each lane publishes its core in
// the shared segment and moves to another core when core_placement advises it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "collectives/transport/shm/shm_segment.hpp"
#include "collectives/transport/wait/core_placement.hpp"

namespace farandole {

class lane_placement {
public:
  /// `cores`: the number of cores that the members of this host may use.
  lane_placement(std::shared_ptr<shm_segment> shared, std::uint32_t rank, double cores);

  /// The calling thread, which must always be the same, starts the bundle whose first step is `step` (the
  /// same on all members) and publishes its core.
  void begin(std::uint64_t step);

  /// Moves the calling thread to another core in two cases:
  /// - this core already has its share of members of lower rank;
  /// - there is a core for each member, but some member is late to start: it may be waiting for this core.
  /// Reads a few cache lines until all members have started and this core is not crowded; after that it does
  /// nothing.
  void look();

private:
  struct sight {
    bool missing = false; ///< some member has not started the bundle
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
