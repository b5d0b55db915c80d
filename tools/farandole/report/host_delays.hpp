// How much longer than usual do messages travel between the leader and each host? All ranks learn of a bundle from the same
// schedule, so where the clocks of the hosts were measured, the time between its arrival at the leader and at another host is
// the time on the way. It is the sum over the hosts through which the schedule goes. A link is slow if its part of it is far
// above the median of all links, so this needs three links or more: in a job of two hosts there is nothing to compare with.
// Operations that follow each other are looked at together, because a link may become slow, and a single message may be late.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tools/farandole/report/matched_calls.hpp"
#include "tools/farandole/report/rank_trace.hpp"

namespace farandole {

/// Delay of messages to a host, beyond the usual one.
struct host_delay {
  trace_time excess{0}; ///< in each direction; 0: not known, or usual
  std::size_t cause =
      0; ///< number of the host with the slow link on the way: this one, or one nearer to the leader
};

/// The hosts of a job by number, in the order of their first traces.
class host_numbers {
public:
  explicit host_numbers(std::span<const rank_trace> traces);

  std::size_t size() const { return names_.size(); }
  /// By trace.
  std::size_t of(std::size_t trace) const { return of_trace_[trace]; }
  const std::string& name(std::size_t host) const { return names_[host]; }

private:
  std::vector<std::string> names_;
  std::vector<std::size_t> of_trace_;
};

class host_delays {
public:
  /// `leader`: trace of the leader.
  host_delays(std::span<const rank_trace> traces, const matched_calls& matched, const host_numbers& hosts,
              std::size_t leader);

  /// By number of the host.
  const std::vector<host_delay>& of(std::size_t operation) const {
    return of_block_[block_of_operation_[operation]];
  }

private:
  std::vector<std::vector<host_delay>>
      of_block_; ///< [0]: of operations without a schedule, for which no delay is known
  std::vector<std::size_t> block_of_operation_;
};

} // namespace farandole
