// Keeps the members of one host from crowding on some cores while others idle. The kernel wakes lanes one
// after the other, each near whoever woke it; two that end up on one core run one after the other for
// milliseconds before it puts one of them elsewhere, which is as long as a bundle takes.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/paths/local/window.hpp"

namespace farandole {

/// How many members share a core, where there are so many cores; 0: there is nobody else.
std::uint32_t share_of_core(std::uint32_t members, double cores);

/// What a member sees of the others' cores.
struct crowd {
  bool too_many = false;       ///< on this one: its share are of lower rank
  std::vector<int> full_cores; ///< with their share of other members
};
/// `cores`: of all members, by rank, negative where it is not known; the own one is not looked at, for it is
/// `here`.
crowd crowd_at(int here, std::uint32_t rank, std::span<const int> cores, std::uint32_t share);

class elbow_room {
public:
  /// `cores`: how many the members of this host may use.
  elbow_room(std::shared_ptr<window> shared, std::uint32_t rank, double cores);

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
    crowd others;
  };
  sight see() const;
  std::uint64_t place_here() const;

  const std::shared_ptr<window> window_;
  const std::uint32_t rank_;
  const std::uint32_t share_; ///< of members on a core; 0: there is nobody else
  std::uint32_t step_ = 0;
  bool settled_ = true;
  bool moved_for_late_ = false;
  int moves_ = 0;
  std::chrono::steady_clock::time_point begun_;
};

} // namespace farandole
