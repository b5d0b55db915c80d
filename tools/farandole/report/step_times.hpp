// Where the time of each step goes, on each rank, as a sum: outside the library, blocked by other ranks, negotiation,
// queue and transfer.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "tools/farandole/report/job_steps.hpp"
#include "tools/farandole/report/wait_division.hpp"

namespace farandole {

/// The time during which callers of one rank waited for another one.
struct blocked_time {
  trace_time call{0};    ///< until it called
  trace_time outside{0}; ///< of that, because it was outside the library for longer
  trace_time unclear{
      0}; ///< of that, what the time outside does not explain, and its request may have travelled
  trace_time message{0};   ///< because the messages of its host travel longer than those of other hosts
  trace_time transfer{0};  ///< until it had moved its part
  trace_time uncertain{0}; ///< of all, what may be an error of the clocks of two hosts
  trace_time avoidable{0}; ///< of all, what would be saved if it were as fast as the next one

  trace_time total() const { return call + message + transfer; }
  blocked_time& operator+=(const blocked_time& other);
  blocked_time& operator/=(std::int64_t count);
};

/// The first five, and the blocked time of all ranks, add up to `wall`.
struct step_time {
  trace_time wall{0};
  trace_time outside{0};
  trace_time negotiation{0};
  trace_time queue{0};
  trace_time transfer{0};
  std::map<std::int32_t, blocked_time> blocked; ///< by the rank that was waited for
  trace_time hidden{0};                         ///< time of transfers during which no caller waited

  trace_time blocked_total() const;
};

/// `parts`: by trace. The result: by step and trace.
std::vector<std::vector<step_time>> step_times(std::span<const rank_trace> traces, const job_steps& steps,
                                               const std::vector<std::vector<wait_part>>& parts);

} // namespace farandole
