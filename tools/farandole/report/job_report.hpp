// Where the time of a training step goes, and how much of it each rank costs. Derived from the event records of a job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/farandole/explain/record_files.hpp"
#include "tools/farandole/report/critical_path.hpp"
#include "tools/farandole/report/stragglers.hpp"

namespace farandole {

/// Mean over all steps.
struct rank_report {
  std::int32_t rank = -1;
  std::string host;
  step_time time;
};

struct reported_straggler {
  farandole::straggler straggler;
  std::int64_t onset_step = 0;
  record_time onset{0};
};

struct reported_path {
  std::int64_t step = 0;
  trace_time length{0}; ///< of the step, mean over the ranks
  std::vector<path_segment> segments;
};

struct job_report {
  std::int32_t size = 0;
  std::uint64_t generation = 0;
  std::vector<std::int32_t> unrecorded; ///< ranks without a record
  bool hosts_compared = true;           ///< the clocks of all hosts were measured, or there is one host
  trace_time clock_error{0};            ///< bound of the error of the measured clocks
  job_steps steps;
  traced_tensors tensors;
  record_time begin{0};  ///< of the first step, on the first rank
  record_time end{0};    ///< of the last step
  trace_time median{0};  ///< length of a step
  trace_time slowest{0}; ///< of the slowest of the last 100
  std::vector<rank_report> ranks;
  step_time mean;                             ///< over the ranks
  double blocked_share = 0;                   ///< of the time of all ranks
  std::vector<reported_straggler> stragglers; ///< the most expensive one first
  trace_time expected{0};                     ///< median step without them
  reported_path median_path;
  reported_path slowest_path;
};

/// The records of a job, in the order of `activities`: members of one generation.
struct member_record {
  const event_record* record = nullptr;
  rank_activity activity;
};

/// The records of the members that activities_in() has found. They remain in `found`.
std::vector<member_record> members_in(const record_files& found,
                                      const std::vector<rank_activity>& activities);

/// `members`: at least one, each of another rank.
job_report report_job(const std::vector<member_record>& members, const tick_reading& reading);

} // namespace farandole
