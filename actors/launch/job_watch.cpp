#include "actors/launch/job_watch.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstdint>

namespace farandole {

namespace {

void ring(const descriptor& bell) {
  const std::uint64_t number = 1;
  [[maybe_unused]] const auto count = ::write(bell.get(), &number, sizeof number);
}

} // namespace

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction current {};
    if (::sigaction(number, nullptr, &current) == 0 && current.sa_handler != SIG_IGN)
      sigaddset(&set, number);
  }
  return set;
}

job_watch::job_watch()
    : done_{::eventfd(0, EFD_CLOEXEC)}, superseded_{::eventfd(0, EFD_CLOEXEC)},
      interrupts_{[set = ending_signals()] { return ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK); }()} {
  assert(done_ && superseded_ && interrupts_);
}

std::function<void(int)> job_watch::finished() {
  return [this](int result) {
    code_ = result;
    ring(done_);
  };
}

std::function<void()> job_watch::stepped_down() {
  return [this] { ring(superseded_); };
}

int job_watch::wait() {
  return wait([](int) { return true; });
}

int job_watch::wait(const std::function<bool(int)>& interrupt) {
  pollfd watched[4] = {{done_.get(), POLLIN, 0},
                       {interrupts_.get(), POLLIN, 0},
                       {superseded_.get(), POLLIN, 0},
                       {input_, POLLIN, 0}};
  bool replaced = false;
  for (;;) {
    // No deadline: the duration of a job is not limited, and the descriptors end the wait.
    if (::poll(watched, 4, -1) < 0) {
      assert(errno == EINTR);
      continue;
    }
    // Checked first, because workers may end as a consequence, and the exit code must tell that.
    if (watched[2].revents != 0) {
      watched[2] = {-1, 0, 0}; // handle it only once
      replaced = true;
      if (interrupt(SIGTERM))
        return 1;
    }
    if (watched[0].revents != 0) {
      std::uint64_t rings = 0; // so that the next wait does not end at once
      [[maybe_unused]] const auto count = ::read(done_.get(), &rings, sizeof rings);
      return replaced ? 1 : code_.load();
    }
    if (watched[3].revents != 0 && has_input_ended()) {
      watched[3] = {-1, 0, 0};
      input_ended_();
    }
    signalfd_siginfo info;
    while (::read(interrupts_.get(), &info, sizeof info) == sizeof info)
      if (interrupt(static_cast<int>(info.ssi_signo)))
        return 0;
  }
}

bool job_watch::has_input_ended() const {
  char dropped[4096];
  const auto count = ::read(input_, dropped, sizeof dropped);
  return count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN);
}

} // namespace farandole
