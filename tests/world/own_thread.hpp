// A thread that does one thing after another while whoever asks waits. What runs there has the thread's own
// memory arena and, where cores are free, a core's caches to itself, as a process of its own would.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace farandole::testing {

class own_thread {
public:
  own_thread() : thread_([this] { loop(); }) {}
  own_thread(const own_thread&) = delete;
  own_thread& operator=(const own_thread&) = delete;
  ~own_thread() {
    run({});
    thread_.join();
  }

  /// Returns when it has been done. Nothing ends the thread.
  void run(std::function<void()> work) {
    std::unique_lock lock(guard_);
    work_ = std::move(work);
    asked_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !asked_; });
  }

private:
  void loop() {
    std::unique_lock lock(guard_);
    for (;;) {
      changed_.wait(lock, [&] { return asked_; });
      const bool last = !work_;
      if (!last)
        work_();
      asked_ = false;
      changed_.notify_all();
      if (last)
        return;
    }
  }

  std::mutex guard_;
  std::condition_variable changed_;
  std::function<void()> work_;
  bool asked_ = false;
  std::thread thread_; ///< last: it uses the others
};

} // namespace farandole::testing
