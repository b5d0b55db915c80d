// Operations on the fast path that the event loop watches: those whose callers left a callback instead of waiting,
// and those whose callers have waited for a long time. It has no timers: the set client decides when to look. Used
// on the event loop's thread only.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "actors/submission/operation_state.hpp"
#include "messages/wire/stalls.hpp"

namespace farandole {

class fast_path_watch {
public:
  using time = std::chrono::steady_clock::time_point;

  void add(operation_state_ptr operation, time since) { watched_.push_back({std::move(operation), since}); }
  /// Adds an operation whose caller has waited since `since` and still waits.
  void add_slow(operation_state_ptr operation, time since);
  bool watches() const { return !watched_.empty(); }
  std::size_t watched() const { return watched_.size(); }

  /// Settles the watched operations that are complete. Passes each one whose collective can continue to `move`, if
  /// there is one, at most once.
  void look(const std::function<void(operation_state_ptr)>& move);

  /// The operations that have waited for longer than `limit`, each with the members that have not published. `ranks`:
  /// the members' global ranks; empty for the global set.
  std::vector<stalled_tensor> stalled(time current, std::chrono::nanoseconds limit,
                                      std::span<const std::int32_t> ranks);

  /// How long the oldest waiting operation has waited; 0 if none waits.
  std::chrono::nanoseconds longest_wait(time current) const;

private:
  struct fast_path_operation {
    operation_state_ptr operation;
    time since; ///< start of its wait
  };
  void drop_finished();

  std::vector<fast_path_operation> watched_; ///< operations that no caller may come to wait for
  std::vector<fast_path_operation> slow_; ///< operations whose callers have waited for `slow_wait` at least
};

} // namespace farandole
