// Processes that the tool starts and waits for. They do not outlive the tool: the kernel kills them when it ends for any
// reason. A launcher that ended in order would write records of its job, after the tool's folder has been removed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace farandole::chaos {

/// This program itself.
inline constexpr const char* self = "/proc/self/exe";

struct child_options {
  const char* program = self;     ///< searched on PATH if it contains no slash
  std::vector<std::string> words; ///< argv; the first word is the name of the program
  int input = -1;                 ///< -1: that of this process
  int output = 1, errors = 2;
  std::map<std::string, std::string> settings; ///< added to its environment
  int network = -1;                            ///< its network namespace; -1: that of this process
};

/// Starts a process and returns its pid, or -1 if fork fails. A program that cannot be executed exits with 127.
/// All signals are unblocked in the process.
pid_t spawn(const child_options& options);

/// Waits for at most `longest`. Returns the exit code, or 128 + the signal that ended the process; nothing if
/// it still runs.
std::optional<int> reap(pid_t child, std::chrono::milliseconds longest);

struct ending {
  int code = 127;
  std::string said; ///< the first KiB of its standard output and standard error
};
/// Runs a process until it ends, and kills it after 15 s.
ending run_to_end(child_options options);

} // namespace farandole::chaos
