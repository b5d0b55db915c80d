// A value that threads replace and copy under a lock, which is held for the copy only.
#pragma once

#include <mutex>
#include <utility>

namespace farandole {

template <class Value>
class guarded {
public:
  void set(Value next) {
    std::lock_guard lock(mutex_);
    value_.swap(next); // `next`, now the old value, is destroyed after the lock is released
  }
  Value get() const {
    std::lock_guard lock(mutex_);
    return value_;
  }

private:
  mutable std::mutex mutex_;
  Value value_;
};

} // namespace farandole
