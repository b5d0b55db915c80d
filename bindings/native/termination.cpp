#include "bindings/native/termination.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace farandole::native {

namespace {

static_assert(std::atomic<pid_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);
std::atomic<pid_t> owner{0};
std::atomic<pid_t> launching{0};
std::atomic<bool> came{false};

/// Async-signal-safe calls only.
void remember(int number, siginfo_t* info, void*) {
  const int kept = errno;
  const bool ends_job = info->si_code == SI_USER && info->si_pid > 0 && info->si_pid == launching;
  if (ends_job || ::getpid() != owner || came.exchange(true)) {
    ::signal(number, SIG_DFL);
    ::kill(::getpid(), number); // comes once this handler has returned
  }
  errno = kept;
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == &remember;
}

} // namespace

bool catch_termination(pid_t launcher) {
  struct sigaction before {};
  ::sigaction(SIGTERM, nullptr, &before);
  if ((before.sa_flags & SA_SIGINFO) != 0 || before.sa_handler != SIG_DFL)
    return false;
  came = false;
  launching = launcher;
  owner = ::getpid();
  struct sigaction ours {};
  ours.sa_sigaction = &remember;
  ours.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&ours.sa_mask);
  return ::sigaction(SIGTERM, &ours, nullptr) == 0;
}

bool termination_came() {
  return came && ::getpid() == owner;
}

void release_termination() {
  struct sigaction now {};
  ::sigaction(SIGTERM, nullptr, &now);
  if (is_ours(now))
    ::signal(SIGTERM, SIG_DFL);
  came = false;
}

} // namespace farandole::native
