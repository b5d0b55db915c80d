// Determines which process made the job fail. Often other processes end first: they fail because of the process at
// fault, which is still writing its traceback. The failure of a process is a consequence of another process in two
// cases:
// - The rendezvous reports that its part in the job ended by the end of the other process, and the other process
//   failed, was lost, or left operations of this process pending.
// - The process names the other one in the last lines that it writes.
// Of the failures that are not a consequence, the earliest is the cause. A worker that is not yet a member is the cause
// only if no member is: the members continue without it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/launch/process.hpp"
#include "elastic/slot_fate.hpp"

namespace farandole {

class root_cause {
public:
  struct conclusion {
    std::int32_t slot = 0;
    int code = 0; ///< the launcher's exit code; not 0
    /// That of the process, 0 if it ended without an error. The launcher's if its signal ended the process.
    int process_code = 0;
    std::string text; ///< "exited with code 3", to follow the process's name
    bool ran = true;  ///< false if the process could not be started
  };

  /// The rendezvous has reported the fate of a slot. It replaces an earlier report about that slot.
  void learn(const slot_fate& fate);
  /// Elastic jobs: the remaining members have started a new generation, so earlier failures are forgotten. `slots`
  /// are the slots of its members, by rank. Before the first call, and in other jobs, a member's rank equals its
  /// slot.
  void begin_generation(std::vector<std::int32_t> slots);
  /// A process has ended. `told_to_end`: the launcher had sent it a signal before, so its exit code is not evidence.
  void ended(std::int32_t slot, const process_end& exit_status, bool told_to_end);
  /// A process could not be started. `text` tells why, to follow the process's name; `code` is a shell's exit code.
  void could_not_start(std::int32_t slot, std::string text, int code);

  /// The last lines that the process wrote to stderr. Python's excepthook writes a line there when this worker ends
  /// because of the end of another one (bindings/python/farandole/common/departure.py).
  void wrote(std::int32_t slot, const std::deque<std::string>& last_lines);

  /// Returns the slot whose end made this slot fail, as far as is known now, or the slot itself.
  std::int32_t culprit_of(std::int32_t slot) const;
  /// Returns the slots of the processes that failed before the launcher sent them signals, ascending.
  std::vector<std::int32_t> failed() const;
  /// Returns the cause, or nothing if no process has failed.
  std::optional<conclusion> judge() const;

private:
  struct failure {
    std::int32_t slot = 0;
    int code = 0;
    bool ran = true;
  };

  bool has_failed(std::int32_t slot) const;
  std::string text_of(std::int32_t slot) const;
  std::int32_t slot_of(std::int32_t rank) const;
  bool is_member(std::int32_t slot) const;

  std::vector<failure> failures_; ///< in the order in which the processes ended
  std::set<std::int32_t> ran_;
  std::map<std::int32_t, std::string> endings_; ///< of processes that the launcher had sent no signal
  std::map<std::int32_t, int> codes_;           ///< of the same processes that ran
  std::map<std::int32_t, slot_fate> fates_;
  std::map<std::int32_t, departure> departures_; ///< of members whose leaving ended the generation
  std::vector<std::int32_t> slots_;              ///< by rank; empty: a rank equals its slot
  std::map<std::int32_t, std::int32_t> blamed_;  ///< by slot: the rank that its last lines name; -1: unknown
};

} // namespace farandole
