// Threads that a library starts get no signals: they belong to the process' owner. A thread inherits the mask
// of the one that starts it.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace farandole {

/// Blocks all signals of this thread while it lives.
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
