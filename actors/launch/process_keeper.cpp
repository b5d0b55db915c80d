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

/// What goes through the pipe: a group, negative when it leaves. Small enough to be written whole or not at
/// all.
using entry = std::int32_t;

/// Out of reach of the terminal and of signals for the launcher's group; holds nothing of the launcher's but
/// the pipe.
void become_keeper(int exit) {
  ::setsid();
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  ::prctl(PR_SET_NAME, "farandole-keep");
  if (exit > 0)
    ::close_range(0, static_cast<unsigned>(exit) - 1, 0);
  ::close_range(static_cast<unsigned>(exit) + 1, ~0U, 0);
}

[[noreturn]] void keep(int exit) {
  become_keeper(exit);
  std::vector<entry> groups;
  for (;;) {
    entry next = 0;
    const auto count = ::read(exit, &next, sizeof next);
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
  descriptor exit{ends[0]}, entrance{ends[1]};
  const pid_t child = ::fork();
  if (child < 0)
    return error{error_kind::unknown, std::string("fork: ") + std::strerror(errno)};
  if (child == 0)
    keep(exit.get());
  return process_keeper{std::move(entrance), child};
}

process_keeper::process_keeper(process_keeper&& other) noexcept
    : entrance_(std::move(other.entrance_)), keeper_(std::exchange(other.keeper_, -1)) {}

process_keeper::~process_keeper() {
  if (keeper_ < 0)
    return;
  entrance_.close();
  // It ends as soon as the last copy of the entrance is closed; children close theirs when they execute.
  while (::waitpid(keeper_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool process_keeper::enter(int entrance, pid_t group) {
  const entry next = group;
  return ::write(entrance, &next, sizeof next) == sizeof next;
}

void process_keeper::leave(pid_t group) const {
  const entry next = -group;
  // The keeper reads all the time; if it was killed there is nothing to tell.
  [[maybe_unused]] const auto count = ::write(entrance_.get(), &next, sizeof next);
}

} // namespace farandole
