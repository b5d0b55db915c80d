// The events of other profilers, as their files describe them: torch.profiler (chrome_trace.hpp), and the profiler of
// TensorFlow and JAX (xspace.hpp).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

namespace farandole {

/// `phase` is the letter of Chrome's trace format: X, B, E, i, C, s, t, f, b, n or e. M names a thread.
struct profiler_event {
  char phase = 0;
  std::string process, thread;      ///< as the file names them
  std::chrono::nanoseconds time{0}; ///< since the base of the file
  std::chrono::nanoseconds duration{0};
  std::string name;      ///< of the event, or of the thread
  std::string category;  ///< may be empty
  std::string id;        ///< of arrows and asynchronous events
  std::string arguments; ///< the fields of a JSON object
};

/// What a file says besides its events. Nothing in a file is trusted.
struct profiler_facts {
  /// The time 0 of the events, since 1970 by the system clock. Empty: the file does not say when its events happened.
  std::optional<std::chrono::nanoseconds> base;
  std::chrono::nanoseconds first{0}, last{0}; ///< event, since the base
  std::size_t events = 0;                     ///< of the phases above, without M
  std::size_t unusable = 0;          ///< events without a time, a process or a phase that can be shown
  std::string host;                  ///< may be empty
  std::optional<std::int32_t> rank;  ///< of torch.distributed
  std::set<std::uint32_t> processes; ///< process ids of the events
  bool merged = false;               ///< written by farandole trace merge
  std::string defect;                ///< why the rest of the file cannot be read; empty: there is no rest
};

using profiler_visitor = std::function<void(const profiler_event&)>;

/// Counts an event.
void add_to_facts(profiler_facts& facts, const profiler_event& entry);

} // namespace farandole
