#include "tools/farandole/trace/system_axis.hpp"

#include <cmath>

namespace farandole {

namespace {

using std::chrono::nanoseconds;

/// A service that keeps the system clock right changes its rate by at most this.
constexpr double largest_slew = 500e-6;
/// Readings of the two clocks are not quite simultaneous.
constexpr nanoseconds reading_error{1'000'000};
constexpr nanoseconds shortest_distance{100'000'000};

} // namespace

system_axis::system_axis(const tick_reading& first, nanoseconds start, const tick_reading& last,
                         nanoseconds end)
    : origin_(first.system), axis_origin_(start) {
  const auto by_ticks = end - start, by_system = last.system - first.system;
  if (by_ticks < shortest_distance)
    return;
  const auto change = by_system - by_ticks;
  const auto largest = std::chrono::duration_cast<nanoseconds>(by_ticks * largest_slew) + reading_error;
  if (std::chrono::abs(change) > largest || by_system < shortest_distance) {
    // The later reading is nearer to what a profiler has written.
    origin_ = last.system;
    axis_origin_ = end;
    change_ = change;
  } else {
    rate_ = static_cast<double>(by_ticks.count()) / static_cast<double>(by_system.count());
  }
}

nanoseconds system_axis::at(nanoseconds time) const {
  return axis_origin_ + nanoseconds(std::llround(static_cast<double>((time - origin_).count()) * rate_));
}

} // namespace farandole
