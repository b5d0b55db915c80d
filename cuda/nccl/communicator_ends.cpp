#include "cuda/nccl/communicator_ends.hpp"

#include <algorithm>
#include <csignal>
#include <pthread.h>
#include <system_error>
#include <thread>
#include <utility>

namespace farandole {

namespace {

/// Starts a thread to which no signal of the process is delivered: those are for the framework's threads. False if the
/// process can have no more threads.
bool start(std::function<void()> function) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = true;
  try {
    std::thread(std::move(function)).detach();
  } catch (const std::system_error&) {
    started = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

} // namespace

void communicator_ends::run(std::string call, std::function<void()> function, std::function<bool()> works) {
  std::list<entry>::iterator own;
  bool starts_watching = false;
  {
    const std::lock_guard lock(mutex_);
    own = running_.insert(running_.end(), {std::move(call), clock::now() + patience_, std::move(works)});
    starts_watching = !std::exchange(watched_, true);
    changed_.notify_all(); // the watch may have nothing left to report, and wait
  }
  const auto ended = [self = shared_from_this(), own] {
    const std::lock_guard lock(self->mutex_);
    self->running_.erase(own);
    self->changed_.notify_all();
  };
  const bool started = start([ended, function = std::move(function)]() mutable {
    function();
    function = nullptr; // its references are released before it counts as returned
    ended();
  });
  if (!started)
    ended();
  if (starts_watching && !start([self = shared_from_this()] { self->watch(); })) {
    const std::lock_guard lock(mutex_);
    watched_ = false;
  }
}

bool communicator_ends::wait_until_idle(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [this] { return running_.empty() && !watched_; });
}

// Ends when nothing runs.
void communicator_ends::watch() {
  std::unique_lock lock(mutex_);
  while (!running_.empty()) {
    const auto next = std::ranges::find_if(running_, [](const entry& call) { return !call.reported; });
    if (next == running_.end()) {
      changed_.wait(lock);
      continue;
    }
    // The first one has the earliest deadline. It may return while this thread waits.
    if (const auto deadline = next->deadline; clock::now() < deadline) {
      changed_.wait_until(lock, deadline);
      continue;
    }
    next->reported = true;
    const auto text = next->call + " has not returned for " +
                      std::to_string(std::chrono::duration_cast<std::chrono::seconds>(patience_).count()) +
                      " s";
    const auto works = next->works;
    lock.unlock();
    stuck_(text, works());
    lock.lock();
  }
  watched_ = false;
  changed_.notify_all();
}

} // namespace farandole
