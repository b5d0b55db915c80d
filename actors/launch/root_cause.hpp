// Which process made the job fail? Often others end before it does: they fail because of it, and the one at
// fault still writes its traceback. A failed process is a consequence of another one if the rendezvous says
// that its part in the job ended by that one's end, and that one failed, was lost, or left operations of this
// one pending; or if the process says so itself in the last lines that it writes. Of the failures that are no
// consequence the earliest is the cause.
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
  struct verdict {
    std::int32_t slot = 0;
    int code = 0;     ///< for the launcher to end with; not 0
    std::string text; ///< "exited with code 3", to follow the process's name
    bool ran = true;  ///< false: it could not be started
  };

  /// The rendezvous tells of a slot's fate. What it has told before of that slot no longer counts.
  void learn(const slot_fate& fate);
  /// Elastic jobs: members that are left began a new generation, which no earlier failure has ended. `slots`:
  /// of its members, by rank. Before, and in other jobs, ranks are slots.
  void begin_generation(std::vector<std::int32_t> slots);
  /// A process has ended. `told_to_end`: after the launcher had sent it a signal, so its exit code means
  /// nothing.
  void ended(std::int32_t slot, const process_end& exit_status, bool told_to_end);
  /// It never ran; `text` says why, to follow its name; `code` is a shell's for that.
  void could_not_start(std::int32_t slot, std::string text, int code);

  /// The last lines that the process wrote to stderr. Python's excepthook writes one there when the error of
  /// a worker that ended ends this one too (bindings/python/farandole/common/departure.py).
  void wrote(std::int32_t slot, const std::deque<std::string>& last_lines);

  /// The slot by whose end this one failed, by all that is known now; the slot itself if it failed on its
  /// own.
  std::int32_t culprit_of(std::int32_t slot) const;
  /// Nothing if no process has failed.
  std::optional<verdict> judge() const;

private:
  struct failure {
    std::int32_t slot = 0;
    int code = 0;
    bool ran = true;
  };

  bool has_failed(std::int32_t slot) const;
  std::string text_of(std::int32_t slot) const;
  std::int32_t slot_of(std::int32_t rank) const;

  std::vector<failure> failures_; ///< in the order of their ends
  std::set<std::int32_t> ran_;
  std::map<std::int32_t, std::string> endings_; ///< of processes that ended by themselves
  std::map<std::int32_t, slot_fate> fates_;
  std::map<std::int32_t, departure> departures_; ///< of those that left first
  std::vector<std::int32_t> slots_;              ///< by rank; empty: ranks are slots
  std::map<std::int32_t, std::int32_t> blamed_; ///< by slots that said so: the rank that ended; -1: not known
};

} // namespace farandole
