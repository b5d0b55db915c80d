// How long to wait before a failed attempt is retried: not at all after the first failure, then with
// exponential backoff. `init()` and the elastic loop of the Python package use it.
#pragma once

#include <cassert>
#include <chrono>

#include "messages/values/backoff.hpp"

namespace farandole {

inline constexpr backoff retry_backoff{std::chrono::milliseconds{100}, std::chrono::seconds{5}};

/// The delay after `failures` in a row, at least 1. `uniform` in [0, 1) is jitter: up to half of the delay is
/// random.
inline std::chrono::nanoseconds retry_delay(int failures, double uniform) {
  assert(failures >= 1);
  return failures == 1 ? std::chrono::nanoseconds{} : retry_backoff.before_try(failures - 2, uniform);
}

} // namespace farandole
