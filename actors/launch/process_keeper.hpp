// A launcher that is killed with SIGKILL can end nothing any more. A tiny process of its own, started before
// the launcher has threads, holds the other end of a pipe: when the pipe closes, the launcher is gone, and
// the keeper kills every process group that is still entered. Who has left the group of its worker (setsid)
// escapes it.
#pragma once

#include <sys/types.h>

#include "messages/values/descriptor.hpp"
#include "messages/values/error.hpp"

namespace farandole {

class process_keeper {
public:
  /// Forks: only while the process has one thread.
  static expected<process_keeper> start();
  process_keeper(process_keeper&&) noexcept;
  process_keeper& operator=(process_keeper&&) = delete;
  /// Lets the keeper end and waits for it.
  ~process_keeper();

  /// Where a group is entered: a child that has made its own group calls enter() with it before it executes
  /// anything.
  int entrance() const { return entrance_.get(); }
  /// Async-signal-safe. `group` is the calling process's own.
  static bool enter(int entrance, pid_t group);
  /// The group has been ended; its number may be used again by others from now on.
  void leave(pid_t group) const;

private:
  process_keeper(descriptor entrance, pid_t keeper) : entrance_(std::move(entrance)), keeper_(keeper) {}

  descriptor entrance_;
  pid_t keeper_;
};

} // namespace farandole
