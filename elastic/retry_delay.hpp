// How long to wait before something that has failed is tried again: not at all after the first failure, then
// longer and longer (exponential backoff with jitter). `init()` and the elastic loop of the Python package
// both wait so.
#pragma once

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>

namespace farandole {

inline constexpr std::chrono::milliseconds shortest_retry_delay{100};
inline constexpr std::chrono::milliseconds longest_retry_delay{10'000};

/// After `failures` in a row, of which there is one at least. `uniform` in [0, 1): half of the delay is
/// drawn.
inline std::chrono::nanoseconds retry_delay(int failures, double uniform) {
  assert(failures >= 1 && uniform >= 0 && uniform < 1);
  if (failures == 1)
    return {};
  using seconds = std::chrono::duration<double>;
  const seconds doubled = seconds(shortest_retry_delay) * std::exp2(std::min(failures - 1, 32));
  const auto longest = std::min<seconds>(doubled, longest_retry_delay);
  return std::chrono::duration_cast<std::chrono::nanoseconds>(longest / 2 * (1 + uniform));
}

} // namespace farandole
