// A thread that does one thing after another while whoever asks waits. What runs there has the thread's own
// memory result heap and, where cores are free, a core and its caches to itself, as a process of its own would.
// Neither of the two sleeps while the other works, nor moves to the other's core: a virtual core that has
// halted is slow for a while, and on a host that trains none halts; and a core on which thousands of members
// were simulated has nothing in its caches that one of them would find there.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

namespace farandole::testing {

class own_thread {
public:
  own_thread() : thread_([this] { loop(); }) { part(); }
  own_thread(const own_thread&) = delete;
  own_thread& operator=(const own_thread&) = delete;
  ~own_thread() {
    run({});
    thread_.join();
    sched_setaffinity(0, sizeof usable_, &usable_);
  }

  /// Returns when it has been done. Nothing ends the thread.
  void run(std::function<void()> work) {
    work_ = std::move(work);
    asked_.store(true, std::memory_order_release);
    while (asked_.load(std::memory_order_acquire))
      std::this_thread::yield();
  }

private:
  /// The last core for the thread, all others for who asks.
  void part() {
    CPU_ZERO(&usable_);
    if (sched_getaffinity(0, sizeof usable_, &usable_) != 0 || CPU_COUNT(&usable_) < 2)
      return;
    int last = CPU_SETSIZE - 1;
    while (!CPU_ISSET(last, &usable_))
      --last;
    cpu_set_t own, others = usable_;
    CPU_ZERO(&own);
    CPU_SET(last, &own);
    CPU_CLR(last, &others);
    pthread_setaffinity_np(thread_.native_handle(), sizeof own, &own);
    sched_setaffinity(0, sizeof others, &others);
  }

  void loop() {
    for (bool last = false; !last; asked_.store(false, std::memory_order_release)) {
      while (!asked_.load(std::memory_order_acquire))
        std::this_thread::yield();
      last = !work_;
      if (!last)
        work_();
    }
  }

  std::function<void()> work_; ///< of who asks until it has, then of the thread until it is done
  std::atomic<bool> asked_{false};
  cpu_set_t usable_{};
  std::thread thread_; ///< last: it uses the others
};

} // namespace farandole::testing
