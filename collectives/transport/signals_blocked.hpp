// Threads that a library starts must not receive signals, which belong to the owner of the process. A new
// thread inherits the signal mask of the thread that starts it.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace farandole {

/// Blocks all signals of the calling thread during the lifetime of the object.
class signals_blocked {
public:
  signals_blocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~signals_blocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  signals_blocked(const signals_blocked&) = delete;
  signals_blocked& operator=(const signals_blocked&) = delete;

private:
  sigset_t before_;
};

} // namespace farandole
