// Operations on the fast path that the loop has been asked to look after: those whose callers left a callback
// instead of waiting, and those whose callers have waited for long. Decides nothing about time: the worker
// says when to look. One thread, the loop.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "actors/submission/operation_state.hpp"
#include "collectives/negotiation/stall.hpp"

namespace farandole {

class fast_path_watch {
public:
  using time = std::chrono::steady_clock::time_point;

  void add(operation_state_ptr operation, time since) { watched_.push_back({std::move(operation), since}); }
  /// Its caller has waited since `since` and goes on waiting.
  void add_slow(operation_state_ptr operation, time since);
  bool watches() const { return !watched_.empty(); }
  std::size_t watched() const { return watched_.size(); }

  /// Settles the watched ones that are complete. `move`, if there is one, is given those whose collective can
  /// go on, once each.
  void look(const std::function<void(operation_state_ptr)>& move);

  /// Those that have waited for longer than `limit`, each with the members that have not published; `ranks`:
  /// the members' global ranks, none for the global set.
  std::vector<stall> stalled(time current, std::chrono::nanoseconds limit,
                             std::span<const std::int32_t> ranks);

  /// How long the oldest that still waits has waited; 0 if none does.
  std::chrono::nanoseconds longest_wait(time current) const;

private:
  struct fast_path_operation {
    operation_state_ptr operation;
    time since; ///< it has been there
  };
  void drop_finished();

  std::vector<fast_path_operation> watched_; ///< nobody may come to wait
  std::vector<fast_path_operation> slow_;    ///< waited for, for `slow_wait` at least
};

} // namespace farandole
