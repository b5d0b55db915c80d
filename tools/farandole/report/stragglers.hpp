// Which ranks or hosts make a job slow? In a step, the rank for which the others waited longest is its *cause*. In a job
// without stragglers each rank is the cause equally often, because some rank is always last. A rank is named only if
//
// - it is the cause more often than chance explains: the probability is below `chance_limit`, divided by the number of
//   tests that are made (binomial test with Bonferroni's correction). A mean alone would name the rank with the longest
//   single delay. The test is made on all steps, on every second step, because two ranks of a job of two that are late
//   in turns are the cause equally often, and on the last half of the steps, because a rank may have become slow; and
// - the others wait for it for at least `least_share` of the median step in these steps. The leader, for example, is
//   last by some microseconds more often than others, which costs nothing. What may be an error of the clocks of two hosts
//   does not count, because such an error is the same in each operation.
//
// A host of two ranks or more is named instead of its ranks if the other hosts wait for it by the same test, and none of
// its ranks is the cause more often than the others on that host. Where each host has one rank, a slow host cannot be
// told from a slow rank.
//
// The kind is what most of the wait for the rank or host is:
//
// - late at the call: before its calls it was outside the library for longer than the rank that waited;
// - slow in transfer: it began transfers later, or needed longer for its own part (the time between `path begin` and `path
//   end` without the time that `path end` states as spent waiting); or it came out of the last operation later;
// - link: the messages of the host travel longer than those of other hosts. `scheduled` events tell, if the clocks of three
//   hosts or more were measured (host_delays.hpp). Requests, schedules, and the messages of a transfer are then as late as the
//   link explains. A link that is slow for large messages alone delays all ranks equally: each path ends when all data have
//   arrived everywhere, and all ranks wait, so no event tells which link it is;
// - host or link: only the leader's record tells that the host's request came last, and its ranks were not outside for
//   longer. The request may have been sent late, or have travelled long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/farandole/report/step_times.hpp"

namespace farandole {

struct straggler_rules {
  double chance_limit = 0.005;  ///< that some rank of a job without stragglers is named
  double least_share = 0.02;    ///< of the median step
  std::size_t fewest_steps = 4; ///< of a test
};

enum class straggler_kind : std::uint8_t {
  late_at_call,     ///< it computes, or loads data, for longer than others
  slow_in_transfer, ///< it takes longer than others to begin or to move its part
  host,             ///< all ranks of the host are late
  link,             ///< messages to and from the host take longer than those of other hosts
  host_or_link      ///< one of the two: the records do not tell which
};

struct straggler {
  straggler_kind kind = straggler_kind::late_at_call;
  std::int32_t rank = -1; ///< -1: the host
  std::string host;
  double share = 0;             ///< of the blocked time of all ranks
  trace_time cost{0};           ///< wait of each other rank, mean over all steps
  std::size_t caused_steps = 0; ///< in which it was the cause
  std::size_t onset = 0;        ///< position of the first step in which it was the cause consistently
  bool alternates = false;      ///< it is the cause in every second step
};

/// `times`: by step and trace. `size`: of the job, which may have more ranks than there are traces.
std::vector<straggler> find_stragglers(std::span<const rank_trace> traces,
                                       const std::vector<std::vector<step_time>>& times, std::int32_t size,
                                       const straggler_rules& rules = {});

/// The probability that something of probability `chance` happens at least `count` times in `trials`.
double binomial_tail(std::size_t count, std::size_t trials, double chance);

} // namespace farandole
