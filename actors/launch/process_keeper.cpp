#include "actors/launch/process_keeper.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace farandole {

namespace {

/// The record that is sent through the pipe: the id of a process group, negated when the group leaves. It is smaller
/// than PIPE_BUF, so a write is atomic.
using entry = std::int32_t;

/// Detaches the keeper from the terminal and from signals to the launcher's group, and closes all inherited
/// descriptors except the pipe.
void become_keeper(int read_end) {
  ::setsid();
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  ::prctl(PR_SET_NAME, "farandole-keep");
  if (read_end > 0)
    ::close_range(0, static_cast<unsigned>(read_end) - 1, 0);
  ::close_range(static_cast<unsigned>(read_end) + 1, ~0U, 0);
}

[[noreturn]] void keep(int read_end) {
  become_keeper(read_end);
  std::vector<entry> groups;
  for (;;) {
    entry next = 0;
    const auto count = ::read(read_end, &next, sizeof next);
    if (count < 0 && errno == EINTR)
      continue;
    if (count != sizeof next)
      break;
    if (next > 0)
      groups.push_back(next);
    else
      std::erase(groups, -next);
  }
  for (const auto group : groups)
    ::kill(-group, SIGKILL);
  ::_exit(0);
}

} // namespace

expected<process_keeper> process_keeper::start() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return error{error_kind::unknown, std::string("pipe2: ") + std::strerror(errno)};
  descriptor read_end{ends[0]}, write_end{ends[1]};
  const pid_t child = ::fork();
  if (child < 0)
    return error{error_kind::unknown, std::string("fork: ") + std::strerror(errno)};
  if (child == 0)
    keep(read_end.get());
  return process_keeper{std::move(write_end), child};
}

process_keeper::process_keeper(process_keeper&& other) noexcept
    : write_end_(std::move(other.write_end_)), keeper_(std::exchange(other.keeper_, -1)) {}

process_keeper::~process_keeper() {
  if (keeper_ < 0)
    return;
  write_end_.close();
  // The keeper ends as soon as the last copy of the pipe's write end is closed. Children close theirs on execve.
  while (::waitpid(keeper_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool process_keeper::enter(int write_end, pid_t group) {
  const entry next = group;
  return ::write(write_end, &next, sizeof next) == sizeof next;
}

void process_keeper::leave(pid_t group) const {
  const entry next = -group;
  // The write does not block for long, because the keeper always reads. If the keeper was killed, the error is
  // ignored.
  [[maybe_unused]] const auto count = ::write(write_end_.get(), &next, sizeof next);
}

} // namespace farandole
