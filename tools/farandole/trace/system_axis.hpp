// Places times of the system clock of a rank's host on the time axis of a trace. Other profilers note these times, whereas
// the axis is made of ticks, which no adjustment of the system clock changes. Two readings of both clocks, at the start of
// the rank and when its record was copied, give the rate of the system clock between them.
#pragma once

#include <chrono>
#include <optional>

#include "messages/record/tick_clock.hpp"

namespace farandole {

class system_axis {
public:
  /// `start` and `end`: the places of the two readings on the axis.
  system_axis(const tick_reading& first, std::chrono::nanoseconds start, const tick_reading& last,
              std::chrono::nanoseconds end);

  /// Of a time since 1970. Never decreases with it.
  std::chrono::nanoseconds at(std::chrono::nanoseconds time) const;
  /// By how much the system clock was set between the readings, if it was: earlier times are placed wrongly by this.
  std::chrono::nanoseconds clock_change() const { return change_; }

private:
  std::chrono::nanoseconds origin_, axis_origin_, change_{0};
  double rate_ = 1;
};

} // namespace farandole
