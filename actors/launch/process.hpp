// Starts a program in a process group of its own, with its output in pipes and a descriptor that becomes
// readable when it ends. If the launcher dies, so does the program, and with a keeper everything else in its
// group.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "messages/values/descriptor.hpp"
#include "messages/values/error.hpp"

namespace farandole {

class process_keeper;

struct process_spec {
  std::vector<std::string>
      arguments; ///< the program first; looked up in PATH of `environment` if it has no slash
  std::vector<std::string> environment; ///< "NAME=value", all of it
  std::vector<int> inherited;           ///< descriptors that the program keeps, under the same numbers
  const process_keeper* keeper = nullptr;
};

/// How a process ended. A code as a shell tells it: 128 + signal when a signal ended it.
struct process_end {
  int code = 0;
  int signal = 0;

  bool failed() const { return code != 0; }
  /// "exited with code 3", "was killed by signal 9 (Killed)"
  std::string text() const;
};

/// A running process. Whoever has it must reap() it.
struct process {
  pid_t id = -1;      ///< also its group's
  descriptor watched; ///< readable when the process has ended
  descriptor output;
  descriptor errors;

  /// How it ended, once it has; the number stays taken.
  process_end ending() const;
  /// Sends a signal to the whole group. Harmless when nobody is left in it. Not after reap().
  void signal(int number) const;
  /// Gives the number back. After it has ended and its group was dealt with.
  void reap(const process_keeper* keeper);
};

/// Its standard input is empty: a process in the background must not read from the terminal. Waits until the
/// program runs (a millisecond); the error says why it could not, with the kinds of find_program().
expected<process> start_process(const process_spec& spec);

} // namespace farandole
