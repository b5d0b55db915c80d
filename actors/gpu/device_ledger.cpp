#include "actors/gpu/device_ledger.hpp"

namespace farandole {

void device_ledger::launched() {
  std::lock_guard lock(guard_);
  ++launched_;
}

void device_ledger::released() {
  std::lock_guard lock(guard_);
  if (--launched_ == 0)
    ended_.notify_all();
}

void device_ledger::given_up(std::size_t bundles, const error& reason) {
  if (bundles == 0)
    return;
  std::lock_guard lock(guard_);
  launched_ -= bundles;
  if (!problem_)
    problem_ = reason;
  if (launched_ == 0)
    ended_.notify_all();
}

error device_ledger::wait(const std::function<bool()>& interrupted) {
  constexpr std::chrono::milliseconds slice{100};
  std::unique_lock lock(guard_);
  while (!ended_.wait_for(lock, slice, [this] { return launched_ == 0; })) {
    lock.unlock();
    if (interrupted && interrupted())
      return {error_kind::aborted, "the wait for the GPU was interrupted"};
    lock.lock();
  }
  return problem_;
}

} // namespace farandole
