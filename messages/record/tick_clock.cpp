#include "messages/record/tick_clock.hpp"

#include <fstream>
#include <string>

namespace farandole {

tick_clock tick_clock::of_this_host() {
#if defined(__x86_64__)
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string name;
  return tick_clock(file >> name && name == "tsc");
#else
  return tick_clock(false);
#endif
}

// A thread may lose its core between two readings. The attempt during which the least time passed is the best one.
tick_reading tick_clock::read() const {
  using std::chrono::nanoseconds;
  constexpr int attempts = 8;
  tick_reading best;
  auto shortest = nanoseconds::max();
  for (int attempt = 0; attempt < attempts; ++attempt) {
    const nanoseconds before = std::chrono::steady_clock::now().time_since_epoch();
    const auto ticks = now();
    const nanoseconds system = std::chrono::system_clock::now().time_since_epoch();
    const nanoseconds after = std::chrono::steady_clock::now().time_since_epoch();
    if (after - before >= shortest)
      continue;
    shortest = after - before;
    best = {ticks, before + (after - before) / 2, system};
  }
  if (!counter_)
    best.ticks = static_cast<std::uint64_t>(best.steady.count());
  return best;
}

tick_scale tick_scale::between(const tick_reading& earlier, const tick_reading& later) {
  const auto ticks = static_cast<double>(later.ticks - earlier.ticks);
  const auto time = static_cast<double>((later.steady - earlier.steady).count());
  return {earlier, later.ticks == earlier.ticks ? 1.0 : time / ticks};
}

} // namespace farandole
