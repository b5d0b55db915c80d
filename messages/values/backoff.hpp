// Exponential backoff with jitter: how long to wait before a failed attempt is retried. The jitter spreads the
// attempts of many processes.
#pragma once

#include <algorithm>
#include <cassert>
#include <chrono>

namespace farandole {

struct backoff {
  std::chrono::nanoseconds shortest{};
  std::chrono::nanoseconds longest{};

  /// The delay before try `number`, counted from 0: `shortest`, doubled for each earlier try up to `longest`,
  /// and then multiplied by 1 + `uniform`, where `uniform` in [0, 1) is random.
  std::chrono::nanoseconds before_try(int number, double uniform = 0) const {
    assert(number >= 0 && uniform >= 0 && uniform < 1);
    auto wait = std::min(shortest, longest);
    while (number-- > 0 && wait < longest)
      wait = std::min(2 * wait, longest);
    return std::chrono::duration_cast<std::chrono::nanoseconds>(wait * (1 + uniform));
  }
};

} // namespace farandole
