#include "bindings/kernels/tensorflow/waiter.hpp"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace farandole::tensorflow {
namespace {

constexpr int patience_ms = 1;

// Leaked on purpose: the thread may wait here until the process has ended.
class waiter {
public:
  waiter() {
    std::thread([this] { run(); }).detach();
  }

  void take(waiting* small) {
    std::unique_lock lock(mutex_);
    arrived_.push_back(small);
    if (!std::exchange(idle_, false))
      return;
    lock.unlock();
    something_.notify_one();
  }

private:
  [[noreturn]] void run() {
    pthread_setname_np(pthread_self(), "fd-tensorflow");
    std::deque<waiting*> own;
    for (;;) {
      append_arrived(own);
      waiting* const first = own.front();
      if (first->settles_within(patience_ms)) {
        own.pop_front();
        first->conclude();
        continue;
      }
      for (waiting* entry : std::exchange(own, {}))
        entry->leave_to_runtime();
    }
  }

  /// Moves the arrived operations to `own`. Blocks until there is one if `own` is empty.
  void append_arrived(std::deque<waiting*>& own) {
    std::unique_lock lock(mutex_);
    if (own.empty()) {
      idle_ = arrived_.empty();
      something_.wait(lock, [this] { return !arrived_.empty(); });
      idle_ = false;
    }
    own.insert(own.end(), arrived_.begin(), arrived_.end());
    arrived_.clear();
  }

  std::mutex mutex_;
  std::condition_variable something_;
  std::deque<waiting*> arrived_;
  bool idle_ = false; // whether the thread has to be woken
};

} // namespace

void wait_elsewhere(waiting* small) {
  static auto* const only = new waiter;
  only->take(small);
}

} // namespace farandole::tensorflow
