// Copies a record from the memory of a worker to a file, for a launcher: while the worker runs, is stopped or stuck, and
// after it has died. The file has the layout of the memory, so read_event_record() reads both. Pages that the worker has
// not touched take no space in the file.
#pragma once

#include <cstdint>
#include <string>

#include "messages/record/tick_clock.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// What the launcher adds to the copy.
struct record_copy {
  tick_reading time;      ///< of the copy
  std::int32_t slot = -1; ///< of the worker
  std::string ending; ///< how its process ended, such as "was killed by signal 9 (Killed)"; empty: it runs
  bool told_to_end = false; ///< the launcher had told the process to end, or killed it
  std::int32_t process = 0; ///< its id on its host; 0: not known
  char state =
      0; ///< of the running process: 'T' if it is stopped, or another letter of /proc/PID/stat; 0: not known
};

struct event_copy_header;
void write_facts(const record_copy& facts, event_copy_header& target);

/// Whether a process has taken the memory behind the descriptor `memory`: its runtime was started.
bool is_recorded_in(int memory);

/// The global rank that the owner of the memory had last; -1: none.
std::int32_t rank_recorded_in(int memory);

/// Copies the memory behind the descriptor `memory`, whose owner may write meanwhile, into the empty file `file`. The copy
/// is a record even if no process has taken the memory.
error copy_event_record(int memory, int file, const record_copy& facts);

} // namespace farandole
