// The bundles of one runtime on which devices still work after their operations were settled, over all process sets. A
// caller that must not continue with data that may turn out wrong, as before it saves them, waits here. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

#include "messages/values/error.hpp"

namespace farandole {

class device_ledger {
public:
  /// A device was given the work of a bundle.
  void launched();
  /// The result of a bundle depends on the devices of other members.
  void depends_on_members() { dependent_.fetch_add(1, std::memory_order_relaxed); }
  /// It has done the work of a bundle.
  void released();
  /// The work of `bundles` bundles will not be waited for any more, for this reason. It stays for the life of the runtime.
  void given_up(std::size_t bundles, const error& reason);

  /// Waits until no bundle is launched. Returns the first reason for which one was given up; `aborted` if
  /// `interrupted()`, which is called every 100 ms, returns true. Bounded, because lanes give bundles up after the
  /// operation timeout.
  error wait(const std::function<bool()>& interrupted = {});

  /// Number of bundles so far whose results depend on the devices of other members.
  std::uint64_t dependent() const { return dependent_.load(std::memory_order_relaxed); }

private:
  std::mutex guard_;
  std::condition_variable ended_;
  std::size_t launched_ = 0;
  std::atomic<std::uint64_t> dependent_{0};
  error problem_;
};

} // namespace farandole
