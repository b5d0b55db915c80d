// Divides the time during which callers of a rank wait: for which rank, and for which part of the library? A collective
// takes as long on every rank as on the last one, so durations cannot tell. Instead, the times of the calls of all ranks
// are compared where they are of one clock: on one host, and between hosts whose clocks were measured. Between other hosts the
// leader's record tells which rank's request came last, and when: on another host that moment is as long before the bundle is
// scheduled as on the leader's host.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "tools/farandole/report/host_delays.hpp"
#include "tools/farandole/report/matched_calls.hpp"
#include "tools/farandole/report/rank_trace.hpp"

namespace farandole {

enum class time_use : std::uint8_t {
  outside,       ///< no caller waits: the program computes, or loads data
  late_call,     ///< for the rank that called last
  late_message,  ///< for messages of a host that travel longer than those of other hosts
  late_transfer, ///< for a rank that began the transfer last, or took longer than others to move its part
  negotiation,   ///< the leader decides, or reduces a small tensor itself
  queue,         ///< behind other bundles
  transfer
};

/// A part of a wait. The parts of a rank do not overlap.
struct wait_part {
  trace_time begin{0};
  trace_time end{0};
  time_use use = time_use::transfer;
  std::int32_t rank =
      -1; ///< for which the caller waits; of a host with slow messages, the last to call; -1: for none
  std::optional<std::size_t> operation; ///< among the matched operations
  trace_time outside{0};   ///< of a late call: by how much longer the rank was outside the library before
  trace_time avoidable{0}; ///< by how much the wait were shorter if this rank were as fast as the next one
  trace_time uncertain{0}; ///< how much of it may be an error of the clocks of two hosts
  /// A late call is known from the leader's record alone: the request may have travelled long.
  bool by_leader = false;

  trace_time length() const { return end - begin; }
};

class wait_division {
public:
  /// The arguments must outlive this object.
  wait_division(std::span<const rank_trace> traces, const matched_calls& matched,
                const traced_tensors& tensors);

  /// The waits of a rank, in order of time. Of callers that wait at the same time, the one that began first counts.
  std::vector<wait_part> parts_of(std::size_t trace) const;

private:
  /// The call for which an operation waited longest.
  struct last_call {
    std::int32_t rank = -1;
    std::optional<std::size_t> trace; ///< none: the rank has no record
    trace_time time{0};               ///< on the clock of the waiting rank
    std::optional<trace_time> second; ///< the call before it; none: not known
    bool by_leader = false;
  };
  /// Of the hosts whose messages travel longer than usual, the one whose request arrives last.
  struct late_host {
    std::size_t last = 0;  ///< of the traces of the host with the slow link: the last to call
    std::size_t host = 0;  ///< number of that host
    trace_time arrival{0}; ///< of the request, without its usual travel time
    trace_time excess{0};  ///< of the travel time, in each direction
  };
  /// What the calls of all ranks say about an operation.
  struct operation_facts {
    bool comparable = true;             ///< all recorded calls have times of one axis
    std::size_t axis = 0;               ///< with comparable
    std::optional<last_call> last;      ///< with comparable
    std::optional<late_host> late;      ///< with comparable
    std::optional<last_call> by_leader; ///< the time is on the axis of its trace, or else of the leader
  };
  /// Of a bundle, over the ranks whose records have it.
  struct transfer_facts {
    std::optional<std::size_t> last; ///< trace that began last; none: their times are not comparable
    trace_time last_begin{0};
    std::size_t slowest = 0; ///< trace that took longest for its own part
    trace_time lag{0};       ///< by how much longer than the median; 0 if that is within the usual variation
    bool measured = false;   ///< the path measures how long it waits
  };

  operation_facts facts_of(std::size_t number) const;
  std::optional<last_call> last_by_leader(const matched_operation& operation) const;
  void collect_transfers();
  std::optional<late_host> late_host_of(std::size_t number) const;
  /// Bound of the error of differences between times of two traces.
  trace_time error_between(std::size_t trace, std::size_t other) const;
  /// By how much longer one rank was outside the library before its call than another one before its own.
  trace_time excess_outside(std::size_t operation, std::size_t late, std::size_t waiting) const;
  const traced_call* call_on(std::size_t operation, std::size_t trace) const;
  std::optional<last_call> last_call_of(std::size_t operation, std::size_t waiting) const;
  /// On the clock of the waiting rank.
  std::optional<trace_time> time_on(std::size_t operation, std::size_t waiting,
                                    const last_call& by_leader) const;
  void divide(std::size_t trace, const traced_wait& wait, trace_time begin,
              std::vector<wait_part>& parts) const;
  void divide_transfer(std::size_t trace, std::size_t operation, const bundle_key& bundle, wait_part all,
                       std::vector<wait_part>& parts) const;

  std::span<const rank_trace> traces_;
  const matched_calls& matched_;
  const traced_tensors& tensors_;
  const host_numbers hosts_;
  std::map<std::int32_t, std::size_t> trace_of_rank_;
  std::optional<std::size_t> leader_; ///< trace of the rank with records of readiness
  std::optional<host_delays> delays_; ///< with a leader
  std::vector<operation_facts> operations_;
  std::map<bundle_key, transfer_facts> transfers_;
};

} // namespace farandole
