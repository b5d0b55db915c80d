// One trace for Perfetto, in the JSON of Chrome's traces, from the event records of all ranks: a process for each rank; a
// thread for each caller, event loop and lane; arrows from each call to the transfer that carries it, and from the last
// rank that came to a round of the fast path to the ranks that waited for it; counters of the bytes that were moved and of
// the time that callers were blocked.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "messages/record/event_reader.hpp"
#include "tools/farandole/explain/host_clocks.hpp"
#include "tools/farandole/trace/json_events.hpp"
#include "tools/farandole/trace/system_axis.hpp"

namespace farandole {

/// The end of a trace. Events that are added to it come before.
inline constexpr const char* trace_end = "\n]}\n";

/// The time of an event of another profiler, since 1970 by the clock of the host of a record.
struct foreign_moment {
  std::size_t record = 0; ///< index
  std::chrono::nanoseconds time{0};
};

/// A rank in the trace.
struct trace_process {
  std::size_t number = 0;
  system_axis axis;
};

struct merged_trace {
  std::string json;
  json_events events_after{
      std::chrono::nanoseconds{0}};          ///< writes events that are added behind those of `json`
  std::map<std::size_t, trace_process> axes; ///< by index of the record
  std::size_t ranks = 0;
  std::size_t events = 0;  ///< of the records
  std::size_t dropped = 0; ///< that the rings did not keep, and that a trace lacks
  std::string reference;   ///< the host whose clock gives the times: that of the lowest rank
  std::map<std::string, clock_offset> clocks; ///< by host
  std::chrono::nanoseconds worst_error{0};    ///< of these clocks, of those that are known
};

/// Records of processes that were no members are left out. Times are relative to the first event, also of `foreign`.
/// `reading`: the time of this host's clocks, for records that no launcher has copied.
merged_trace merge_records(const std::vector<event_record>& records, const tick_reading& reading,
                           const std::vector<foreign_moment>& foreign = {});

} // namespace farandole
