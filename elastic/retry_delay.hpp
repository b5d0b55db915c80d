// How long to wait before something that has failed is tried again: not at all after the first failure, then
// longer and longer. `init()` and the elastic loop of the Python package both wait so.
#pragma once

#include <cassert>
#include <chrono>

#include "messages/values/backoff.hpp"

namespace farandole {

inline constexpr backoff retry_backoff{std::chrono::milliseconds{100}, std::chrono::seconds{5}};

/// After `failures` in a row, of which there is one at least. `uniform` in [0, 1): half of the delay is
/// drawn.
inline std::chrono::nanoseconds retry_delay(int failures, double uniform) {
  assert(failures >= 1);
  return failures == 1 ? std::chrono::nanoseconds{} : retry_backoff.before_try(failures - 2, uniform);
}

} // namespace farandole
