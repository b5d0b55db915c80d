// Starts a program in a new process group. Its output goes to pipes, and a descriptor becomes readable when it ends.
// If the launcher dies, the program is killed, and with a process keeper all other processes of its group too.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "messages/values/descriptor.hpp"
#include "messages/values/error.hpp"

namespace farandole {

class process_keeper;

struct process_spec {
  std::vector<std::string>
      arguments; ///< the program first; looked up in PATH of `environment` if it has no slash
  std::vector<std::string> environment; ///< the complete environment, as "NAME=value"
  std::vector<int> inherited;           ///< descriptors that the program inherits, under the same numbers
  std::string directory = {};           ///< working directory; empty: that of this process
  bool keeps_input = false;             ///< the standard input is the pipe `process::input`, not /dev/null
  std::string channel_variable = {};    ///< not empty: the program has a channel, whose descriptor it names
  bool own_session = false; ///< has no controlling terminal, so that it cannot ask for a password there
  const process_keeper* keeper = nullptr;
};

/// The environment of this process, as "NAME=value". Must not run while another thread changes the environment.
std::vector<std::string> own_environment();

/// The value of a variable in entries "NAME=value"; empty if it is not there.
std::string_view variable_in(const std::vector<std::string>& environment, std::string_view name);

/// How a process ended. `code` is the code that a shell reports: 128 + signal if a signal ended the process.
struct process_end {
  int code = 0;
  int signal = 0;
  std::string loss = {}; ///< if not empty: the process was lost, and this text tells why

  bool failed() const { return code != 0; }
  /// "exited with code 3", "was killed by signal 9 (Killed)"
  std::string text() const;
};

/// A running process. Its owner must call reap().
struct process {
  pid_t id = -1;      ///< process id, which is also the id of its process group
  descriptor watched; ///< readable when the process has ended
  descriptor input;   ///< empty without `keeps_input`
  descriptor channel; ///< empty without `channel_variable`: a socket in both directions
  descriptor output;
  descriptor errors;

  /// Waits for the process to end and returns how it ended. The process remains a zombie, so its id is not reused.
  process_end ending() const;
  /// Sends a signal to the whole group. Has no effect if the group is empty. Must not be called after reap().
  void signal(int number) const;
  /// Reaps the process, whose id may then be reused. Call it after the process has ended and its group was killed.
  void reap(const process_keeper* keeper);
};

/// Starts a process. Unless it keeps its input, its standard input is /dev/null, because a background process must not
/// read from the terminal. Waits until the program runs (about a millisecond). The error tells why it could not be started, with the kinds of
/// find_program().
expected<process> start_process(const process_spec& spec);

} // namespace farandole
