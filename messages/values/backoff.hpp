// Exponential backoff with jitter: how long to wait before something that has failed is tried again. Whoever
// waits longer by chance than others spreads the tries of many.
#pragma once

#include <algorithm>
#include <cassert>
#include <chrono>

namespace farandole {

struct backoff {
  std::chrono::nanoseconds shortest{};
  std::chrono::nanoseconds longest{};

  /// Before try `number`, counted from 0: `shortest`, doubled for each try before this one up to `longest`,
  /// and up to twice as long by chance: `uniform` in [0, 1).
  std::chrono::nanoseconds before_try(int number, double uniform = 0) const {
    assert(number >= 0 && uniform >= 0 && uniform < 1);
    auto wait = std::min(shortest, longest);
    while (number-- > 0 && wait < longest)
      wait = std::min(2 * wait, longest);
    return std::chrono::duration_cast<std::chrono::nanoseconds>(wait * (1 + uniform));
  }
};

} // namespace farandole
