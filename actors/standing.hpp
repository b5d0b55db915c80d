// What a member's actors and its framework threads both look at: how far the member has come, and the objects
// that outlive the actors. Written by the actors, each field before the signal that publishes it.
#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/door.hpp"
#include "actors/lane.hpp"
#include "collectives/paths/board.hpp"
#include "messages/membership.hpp"

namespace farandole {

struct standing {
  // Set once, before `started` is.
  std::int32_t rank = 0;
  std::vector<member> members;
  std::shared_ptr<farandole::door> door;
  std::shared_ptr<lane_thread> lane;

  /// Kind none: this member is in. Anything else: why it is not.
  std::promise<error> started;
  /// The member has left, or its generation has ended, and its links are closed.
  std::promise<void> ended;

  std::atomic<bool> alive{false};
  std::atomic<std::uint64_t> bundles{0};
  std::atomic<std::uint64_t> bytes_moved{0};

  /// Of this generation, once connected; null where there is none.
  std::shared_ptr<farandole::board> board() const {
    std::lock_guard guard(board_guard_);
    return board_;
  }
  void board(std::shared_ptr<farandole::board> connected) {
    std::lock_guard guard(board_guard_);
    board_ = std::move(connected);
  }

private:
  mutable std::mutex board_guard_; ///< held for a pointer's copy only
  std::shared_ptr<farandole::board> board_;
};

} // namespace farandole
