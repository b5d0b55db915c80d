// Processes that the tool starts and waits for. None of them outlives it: the kernel ends them with it, in
// order, however it ends.
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
  const char* program = self;     ///< looked for on PATH if it has no slash
  std::vector<std::string> words; ///< the first is the name it is called by
  int input = -1;                 ///< -1: as this process has it
  int output = 1, errors = 2;
  std::map<std::string, std::string> settings; ///< added to its environment
  int network = -1;                            ///< a network namespace to be in; -1: that of this process
};

/// -1 where there can be no more processes; what cannot be executed ends with 127. Whatever signals are
/// blocked here are not there.
pid_t spawn(const child_options& options);

/// Its exit code, or 128 + the signal that ended it. Waits so long; nothing: it still runs.
std::optional<int> reap(pid_t child, std::chrono::milliseconds longest);

/// Runs it to its end, and kills it if that takes longer than 15 s.
struct ending {
  int code = 127;
  std::string said; ///< both of its outputs, the first KiB
};
ending run_to_end(child_options options);

} // namespace farandole::chaos
