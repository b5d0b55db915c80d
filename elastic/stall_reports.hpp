// The leaders of the process sets, and the fast paths of their members, each notice the tensors that wait there. Two
// ranks that wait for each other's tensor may be noticed in two places, but the user needs one report of the whole job.
// This class merges the notices of one generation, and decides when to report: when the first tensor has waited for
// longer than the warning time, again at growing intervals or when further ranks are missing, and when the stall is
// over. No clock: the caller passes the time and receives that of the next call.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "elastic/stall_rules.hpp"
#include "elastic/stall_text.hpp"
#include "messages/wire/stalls.hpp"

namespace farandole {

/// Whose tensors a notice lists.
struct stall_origin {
  std::int32_t rank = 0; ///< the member that sent it
  std::uint32_t set = 0; ///< id of the process set, for users
  stall_source source = stall_source::leader;

  friend auto operator<=>(const stall_origin&, const stall_origin&) = default;
};

class stall_reports {
public:
  using time_point = std::chrono::steady_clock::time_point;

  /// The interval of the reports does not grow beyond this, or the warning time.
  static constexpr std::chrono::minutes longest_interval{30};
  /// Further notices, tensors and the rest of longer names are dropped. Tensors are still counted.
  static constexpr std::size_t most_origins = 1024;
  static constexpr std::size_t most_tensors = 1024;
  static constexpr std::size_t most_name_bytes = 256;

  struct step {
    std::optional<stall_report> report;
    std::vector<std::int32_t> missing;   ///< the ranks that tensors in the report wait for, ascending
    std::optional<time_point> call_next; ///< call due() then
  };

  stall_reports() = default;
  explicit stall_reports(stall_rules rules) : rules_(std::move(rules)) {}

  /// A notice has arrived. It replaces the earlier one of the same origin.
  step take(const stall_origin& origin, stall_notice notice, time_point current_time);
  /// To be called at the time in `call_next`; an earlier call does nothing.
  step due(time_point current_time);
  /// Forgets the notices of this member, whose link has ended. If nothing else is stalled, the stall ends without a
  /// report, because it is not known whether it is over.
  void forget(std::int32_t rank);
  /// Forgets everything: the generation has ended.
  void clear();

private:
  struct entry {
    stall_notice notice;
    time_point received;
  };

  step decide(time_point current_time);
  void store(const stall_origin& origin, stall_notice notice, time_point current_time);
  bool overdue() const;
  bool names_further_ranks() const;
  void report(step& result, time_point current_time);
  stall_report report_end(time_point current_time);
  std::vector<stalled_set> sets_at(time_point current_time) const;
  std::optional<time_point> call_at_next(time_point current_time);

  stall_rules rules_;
  std::map<stall_origin, entry> entries_;
  std::set<std::int32_t>
      reported_ranks_; ///< the missing ranks that a report has named; empty: none was reported
  time_point begin_{}; ///< when the first tensor began to wait
  time_point next_report_{};
  std::chrono::nanoseconds interval_{};
  std::optional<time_point> called_; ///< the requested call of due() that is still outstanding
};

} // namespace farandole
