// Decides whether a waiting thread should yield before it sleeps, from the cost of its earlier yields.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace farandole {

/// The time that a sleeping thread takes to be woken and to run on another core.
inline constexpr std::chrono::microseconds wake_up_time{50};

/// Yielding is the quickest way to meet a peer on another core, but it is harmful in two cases:
///
/// - Other processes have work. They run for a whole time slice, whereas a sleeping thread would have been
///   woken at once. After a lost time slice, the next waits sleep at once: as many waits as wake-ups fit into
///   the lost time, doubled for each consecutive loss. Members that share cores do not apply this rule. They
///   lose time slices to late members, for which all members must wait anyway. Once some of them sleep, the
///   others lose time by the wake-ups, and all continue to sleep (4 B at 4 members on 2 cores: 17 µs instead
///   of 6 µs).
/// - The peer shares this core although another core is idle. Each meeting takes two context switches, and
///   both threads stay on the core as long as neither sleeps. After a number of such meetings in a row, the
///   policy advises the thread to move to another core.
///
/// Threads that share a policy may lose each other's updates, which only makes the estimate less accurate.
class yield_policy {
public:
  /// Minimum number of meetings on one core before a thread moves. A time slice lost to the peer counts as
  /// this number of meetings.
  static constexpr std::uint32_t least_meetings = 16;

  /// The measurements of one wait by yielding.
  struct report {
    std::chrono::nanoseconds all{0};     ///< the whole wait
    std::chrono::nanoseconds longest{0}; ///< the longest time away from the core
    bool found = false;                  ///< the condition was met; otherwise the thread sleeps now
  };

  /// `core_each`: whether there is a core for every member on the host. `meetings`: the number of meetings on
  /// one core before a move. Members should use different numbers; otherwise they move at the same time.
  explicit constexpr yield_policy(bool core_each, std::uint32_t meetings = least_meetings)
      : core_each_(core_each), enough_(meetings) {}
  /// A copy keeps the parameters and starts without measurements.
  constexpr yield_policy(const yield_policy& other) : yield_policy(other.core_each_, other.enough_) {}
  yield_policy& operator=(const yield_policy&) = delete;

  /// Whether the next wait should yield. Call it once for each wait.
  bool pays() {
    const auto left = to_skip_.load(std::memory_order_relaxed);
    if (left > 0)
      to_skip_.store(left - 1, std::memory_order_relaxed);
    return left == 0;
  }

  enum class advice : std::uint8_t { stay, move };

  advice saw(const report& look) {
    if (!core_each_)
      return advice::stay;
    const auto lost = look.all >= slice_lost;
    const auto in_a_row = losses_.load(std::memory_order_relaxed);
    losses_.store(lost ? std::min(in_a_row + 1, most_doublings) : 0, std::memory_order_relaxed);
    if (lost)
      to_skip_.store(worth(look.all, in_a_row), std::memory_order_relaxed);
    if (!look.found)
      return advice::stay;
    return met(lost ? least_meetings : look.longest >= a_switch ? 1 : 0);
  }

private:
  advice met(std::uint32_t times) {
    const auto meetings = times > 0 ? meetings_.load(std::memory_order_relaxed) + times : 0;
    const auto moves = moves_.load(std::memory_order_relaxed);
    const auto move = meetings >= enough_ << moves;
    meetings_.store(move ? 0 : meetings, std::memory_order_relaxed);
    if (move)
      moves_.store(std::min(moves + 1, most_doublings), std::memory_order_relaxed);
    else if (times == 0 && moves > 0)
      moves_.store(0, std::memory_order_relaxed);
    return move ? advice::move : advice::stay;
  }

  static std::uint32_t worth(std::chrono::nanoseconds lost, std::uint32_t doublings) {
    const auto waits = std::min<std::int64_t>(lost / wake_up_time, most_skipped);
    return static_cast<std::uint32_t>(std::min<std::int64_t>(waits << doublings, most_skipped));
  }

  static constexpr std::chrono::microseconds slice_lost{200};
  static constexpr std::chrono::microseconds a_switch{3};
  static constexpr std::uint32_t most_doublings = 12;
  static constexpr std::int64_t most_skipped = 4096;

  const bool core_each_;
  const std::uint32_t enough_;
  std::atomic<std::uint32_t> to_skip_{0};
  std::atomic<std::uint32_t> losses_{0};   ///< consecutive lost time slices
  std::atomic<std::uint32_t> meetings_{0}; ///< consecutive meetings with a context switch
  std::atomic<std::uint32_t> moves_{0};    ///< since the last meeting without a switch
};

} // namespace farandole
