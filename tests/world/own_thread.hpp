// A thread that runs one function after another while the caller waits. The functions use the malloc arena of
// this thread and, if cores are free, a core and its caches for themselves, as in a process of their own.
// Neither thread sleeps while the other works, nor moves to the other's core: a virtual core is slow for a
// while after it has halted, which does not happen on a host that trains, and the caches of a core on which
// thousands of members were simulated do not hold the data of a single member.
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

  /// Runs `work` on the thread and returns after its end. An empty `work` ends the thread.
  void run(std::function<void()> work) {
    work_ = std::move(work);
    asked_.store(true, std::memory_order_release);
    while (asked_.load(std::memory_order_acquire))
      std::this_thread::yield();
  }

private:
  /// Assigns the last core to the thread, and all others to the caller.
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

  /// Owned by the caller until asked_ is set, then by the thread until it is cleared.
  std::function<void()> work_;
  std::atomic<bool> asked_{false};
  cpu_set_t usable_{};
  std::thread thread_; ///< the last member, because it uses the others
};

} // namespace farandole::testing
