// The clock of the event record: the processor's counter where the kernel's own clock uses it, because reading it
// takes a few nanoseconds; otherwise the steady clock. Ticks of processes on one host are comparable.
#pragma once

#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace farandole {

/// Ticks and times of the same moment.
struct tick_reading {
  std::uint64_t ticks = 0;
  std::chrono::nanoseconds steady{0}; ///< CLOCK_MONOTONIC
  std::chrono::nanoseconds system{0}; ///< since 1970, UTC
};

class tick_clock {
public:
  /// Reads from the kernel which clock it uses.
  static tick_clock of_this_host();
  /// `counter`: whether to use the processor's counter.
  explicit constexpr tick_clock(bool counter) : counter_(counter) {}

  bool uses_counter() const { return counter_; }

  std::uint64_t now() const {
#if defined(__x86_64__)
    if (counter_)
      return __rdtsc();
#endif
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }

  /// Reads all clocks at nearly the same moment.
  tick_reading read() const;

private:
  bool counter_;
};

/// Converts ticks to times by two readings of one clock, of which the later one gives the rate. The error grows with the
/// distance from the readings by less than 1 ns per 10 µs if they are 100 ms or more apart.
class tick_scale {
public:
  /// `nanoseconds_per_tick` is 1 for the steady clock.
  tick_scale(const tick_reading& origin, double nanoseconds_per_tick)
      : origin_(origin), nanoseconds_per_tick_(nanoseconds_per_tick) {}
  /// If the readings are of the same moment, the rate is 1.
  static tick_scale between(const tick_reading& earlier, const tick_reading& later);

  /// Since the origin; negative before.
  std::chrono::nanoseconds since_origin(std::uint64_t ticks) const {
    const auto distance = static_cast<double>(static_cast<std::int64_t>(ticks - origin_.ticks));
    return std::chrono::nanoseconds(static_cast<std::int64_t>(distance * nanoseconds_per_tick_));
  }
  std::chrono::nanoseconds steady(std::uint64_t ticks) const { return origin_.steady + since_origin(ticks); }
  std::chrono::nanoseconds system(std::uint64_t ticks) const { return origin_.system + since_origin(ticks); }

private:
  tick_reading origin_;
  double nanoseconds_per_tick_;
};

} // namespace farandole
