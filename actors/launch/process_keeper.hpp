// The process keeper kills the job's processes if the launcher dies by SIGKILL, when the launcher itself cannot. It
// is a small child process, forked before the launcher has threads. It reads from a pipe whose write end the launcher
// holds. When the pipe closes, the launcher is gone, and the keeper kills every process group that is still
// registered, and removes the registered files and folders. A process that has left the process group of its worker
// (setsid) is not killed.
#pragma once

#include <sys/types.h>

#include <string>

#include "messages/values/descriptor.hpp"
#include "messages/values/error.hpp"

namespace farandole {

class process_keeper {
public:
  /// Forks the keeper. Call it only while the process has one thread.
  static expected<process_keeper> start();
  process_keeper(process_keeper&&) noexcept;
  process_keeper& operator=(process_keeper&&) = delete;
  /// Ends the keeper and waits for it.
  ~process_keeper();

  /// The write end of the pipe. A child that has created its own process group calls enter() with it before execve.
  int write_end() const { return write_end_.get(); }
  /// Registers a process group. `group` is that of the calling process. Async-signal-safe.
  static bool enter(int write_end, pid_t group);
  /// Removes a group whose processes have been killed. Call it before the group's id can be reused.
  void leave(pid_t group) const;
  /// Registers a file or a folder, which the keeper removes at its end if it still exists.
  void remove_at_end(const std::string& path) const;

private:
  process_keeper(descriptor write_end, pid_t keeper) : write_end_(std::move(write_end)), keeper_(keeper) {}

  descriptor write_end_;
  pid_t keeper_;
};

} // namespace farandole
