#include "actors/launch/input_reader.hpp"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdint>
#include <utility>

namespace farandole {

namespace {

void ring(const descriptor& bell) {
  const std::uint64_t number = 1;
  [[maybe_unused]] const auto count = ::write(bell.get(), &number, sizeof number);
}

void silence(const descriptor& bell) {
  std::uint64_t rings = 0;
  [[maybe_unused]] const auto count = ::read(bell.get(), &rings, sizeof rings);
}

} // namespace

input_reader::input_reader(int source) : source_(source), bell_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)} {
  assert(bell_);
}

void input_reader::start(std::function<void(std::string bytes)> deliver) {
  assert(!thread_.joinable());
  // The thread inherits this signal mask, so that it receives no signal that the process handles elsewhere.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this, deliver = std::move(deliver)]() mutable {
    // Destroyed with the thread's work, because the std::thread may outlive the components that `deliver` refers to.
    const auto own = std::move(deliver);
    run(own);
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void input_reader::allow(std::size_t bytes) {
  allowed_bytes_ += bytes;
  ring(bell_);
}

void input_reader::end() {
  ending_ = true;
  ring(bell_);
}

void input_reader::stop() {
  end();
  if (thread_.joinable())
    thread_.join();
}

void input_reader::run(const std::function<void(std::string bytes)>& deliver) {
  pthread_setname_np(pthread_self(), "fd-input");
  std::string buffer(most_piece_bytes, '\0');
  while (!ending_) {
    const auto size = std::min(allowed_bytes_.load(), buffer.size());
    pollfd watched[2] = {{bell_.get(), POLLIN, 0}, {size > 0 ? source_ : -1, POLLIN, 0}};
    // No deadline: a user may type at any time, and the bell ends the wait.
    if (::poll(watched, 2, -1) < 0) {
      assert(errno == EINTR);
      continue;
    }
    if (watched[0].revents != 0)
      silence(bell_);
    if (watched[1].revents == 0 || ending_)
      continue;
    const auto count = ::read(source_, buffer.data(), size);
    if (count < 0 && (errno == EINTR || errno == EAGAIN))
      continue;
    if (count <= 0)
      return deliver({});
    allowed_bytes_ -= static_cast<std::size_t>(count);
    deliver(buffer.substr(0, static_cast<std::size_t>(count)));
  }
}

} // namespace farandole
