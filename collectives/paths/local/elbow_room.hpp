// Keeps the members of one host, where each could have a core, from working on the same one. The kernel wakes
// lanes one after the other, each near whoever woke it; two that end up on one core run one after the other
// for milliseconds before it puts one of them elsewhere, which is as long as a bundle takes.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "collectives/paths/local/window.hpp"

namespace farandole {

class elbow_room {
public:
  /// `core_each`: whether there is a core for every member; else nothing happens here.
  elbow_room(std::shared_ptr<window> shared, std::uint32_t rank, bool core_each);

  /// The calling thread, always the same, begins with what starts at this step, alike on all members. It says
  /// where it is.
  void begin(std::uint64_t step);

  /// Moves to another core when a member of lower rank is on this one, or when some member has not begun
  /// although it was woken with the others: it may be waiting for this very core. A few cache lines are read
  /// until all have begun on cores of their own, then nothing.
  void look();

private:
  std::uint64_t place_here() const;
  void move();

  const std::shared_ptr<window> window_;
  const std::uint32_t rank_;
  const bool core_each_;
  std::uint32_t step_ = 0;
  bool settled_ = true;
  bool moved_for_late_ = false;
  int moves_ = 0;
  std::chrono::steady_clock::time_point begun_;
};

} // namespace farandole
