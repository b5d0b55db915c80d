#include "actors/launch/process_keeper.hpp"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace farandole {

namespace {

/// The record that is sent through the pipe: the id of a process group, negated when the group leaves; or 0, followed by
/// the path of a file or a folder, and a zero byte. It has at most PIPE_BUF bytes, so that a write is atomic.
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

/// False if the pipe is closed.
bool read_next(int read_end, void* target, std::size_t size) {
  ssize_t count = 0;
  do {
    count = ::read(read_end, target, size);
  } while (count < 0 && errno == EINTR);
  return count == static_cast<ssize_t>(size);
}

std::string read_path(int read_end) {
  std::string path;
  for (char letter = 0; read_next(read_end, &letter, 1) && letter != '\0';)
    path.push_back(letter);
  return path;
}

[[noreturn]] void keep(int read_end) {
  become_keeper(read_end);
  std::vector<entry> groups;
  std::vector<std::string> paths;
  for (entry next = 0; read_next(read_end, &next, sizeof next);) {
    if (next > 0)
      groups.push_back(next);
    else if (next < 0)
      std::erase(groups, -next);
    else
      paths.push_back(read_path(read_end));
  }
  for (const auto group : groups)
    ::kill(-group, SIGKILL);
  std::error_code ignored;
  for (const auto& path : paths)
    std::filesystem::remove_all(path, ignored);
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

void process_keeper::remove_at_end(const std::string& path) const {
  std::string record(sizeof(entry), '\0');
  record.append(path.c_str(), path.size() + 1);
  if (record.size() > PIPE_BUF)
    return; // the parts of a longer record could be separated by others
  [[maybe_unused]] const auto count = ::write(write_end_.get(), record.data(), record.size());
}

} // namespace farandole
