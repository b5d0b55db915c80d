// Frees communicators, each on a thread of its own: the call waits until the device is idle, and the device may wait for
// a communicator that is freed later.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

namespace farandole {

/// Thread-safe.
class communicator_ends : public std::enable_shared_from_this<communicator_ends> {
public:
  using clock = std::chrono::steady_clock;
  /// Gets a text such as "ncclCommAbort on GPU 0 has not returned for 30 s", and whether the device still works on something
  /// of Farandole's: if not, it is busy with other work.
  using stuck_handler = std::function<void(const std::string& text, bool own_work)>;

  communicator_ends(std::chrono::nanoseconds patience, stuck_handler stuck)
      : patience_(patience), stuck_(std::move(stuck)) {}

  /// Calls `function`, named `call`, on a new thread. If it has not returned after `patience`, the handler is called, once
  /// for each call; `works` says whether the device still works on something of Farandole's. If the process can have no
  /// more threads, the function is never called.
  void run(std::string call, std::function<void()> function, std::function<bool()> works);

  /// Waits until all functions have returned; false if that takes longer.
  bool wait_until_idle(std::chrono::nanoseconds timeout);

private:
  struct entry {
    std::string call;
    clock::time_point deadline;
    std::function<bool()> works;
    bool reported = false;
  };

  void watch();

  std::chrono::nanoseconds patience_;
  stuck_handler stuck_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<entry> running_;
  bool watched_ = false;
};

} // namespace farandole
