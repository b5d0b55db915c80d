#include "tools/farandole/report/job_report.hpp"

#include <algorithm>
#include <map>

#include "tools/farandole/explain/host_clocks.hpp"

namespace farandole {

namespace {

/// Steps of which the slowest is shown.
constexpr std::size_t recent_steps = 100;

trace_time mean_wall(const std::vector<step_time>& ranks) {
  trace_time total{0};
  for (const auto& time : ranks)
    total += time.wall;
  return total / static_cast<std::int64_t>(ranks.size());
}

trace_time median_of(std::vector<trace_time> values) {
  std::ranges::sort(values);
  return values[(values.size() - 1) / 2];
}

void add(step_time& total, const step_time& time) {
  total.wall += time.wall;
  total.outside += time.outside;
  total.negotiation += time.negotiation;
  total.queue += time.queue;
  total.transfer += time.transfer;
  total.hidden += time.hidden;
  for (const auto& [rank, blocked] : time.blocked)
    total.blocked[rank] += blocked;
}

void divide(step_time& total, std::int64_t count) {
  for (auto* part :
       {&total.wall, &total.outside, &total.negotiation, &total.queue, &total.transfer, &total.hidden})
    *part /= count;
  for (auto& [rank, blocked] : total.blocked)
    blocked /= count;
}

class job_reporter {
public:
  job_reporter(const std::vector<member_record>& members, const tick_reading& reading);
  job_report report();

private:
  void set_axes(const host_clocks& clocks);
  void add_means();
  void add_stragglers();
  void add_paths();
  trace_time saved_in(std::size_t step) const;
  std::string_view host_of(std::int32_t rank) const;
  record_time time_of(trace_time time) const { return origin_ + time; }
  reported_path path_of(std::size_t step) const;

  job_report report_;
  std::vector<rank_trace> traces_;
  record_time origin_{0}; ///< of the times of traces
  matched_calls matched_;
  std::vector<std::vector<wait_part>> parts_; ///< by trace
  std::vector<std::vector<step_time>> times_; ///< by step and trace
  std::vector<trace_time> walls_;             ///< by step
};

job_reporter::job_reporter(const std::vector<member_record>& members, const tick_reading& reading) {
  std::vector<const member_record*> sorted;
  std::vector<const event_record*> records;
  for (const auto& member : members)
    report_.size = std::max(report_.size, member.activity.size);
  for (const auto& member : members)
    if (member.activity.rank < report_.size) {
      sorted.push_back(&member);
      records.push_back(member.record);
    }
  std::ranges::sort(sorted, {}, [](const member_record* member) { return member->activity.rank; });
  if (!sorted.empty())
    origin_ = sorted.front()->record->origin.system;
  const host_clocks clocks(records, reading);
  for (const auto* member : sorted) {
    traces_.push_back(trace_of(*member->record, member->activity, clocks.scale_of(*member->record), origin_,
                               report_.tensors));
    report_.generation = member->activity.generation;
  }
  set_axes(clocks);
  std::vector<bool> recorded(static_cast<std::size_t>(report_.size));
  for (const auto& trace : traces_)
    recorded[static_cast<std::size_t>(trace.rank)] = true;
  for (std::int32_t rank = 0; rank < report_.size; ++rank)
    if (!recorded[static_cast<std::size_t>(rank)])
      report_.unrecorded.push_back(rank);
}

void job_reporter::set_axes(const host_clocks& clocks) {
  std::map<std::string, std::size_t> axes;
  for (auto& trace : traces_) {
    const bool measured = clocks.comparable(trace.host, clocks.reference());
    trace.axis = measured ? 0 : axes.try_emplace(trace.host, axes.size() + 1).first->second;
    trace.above = clocks.rank_above(trace.host);
    const auto found = clocks.offsets().find(trace.host);
    if (measured && found != clocks.offsets().end())
      trace.clock_error = found->second.error.value_or(trace_time{0});
    report_.clock_error = std::max(report_.clock_error, trace.clock_error);
  }
  report_.hosts_compared = axes.empty();
}

job_report job_reporter::report() {
  matched_ = match_calls(traces_, report_.tensors.size());
  report_.steps = find_steps(traces_, matched_, report_.tensors);
  if (report_.steps.steps.empty())
    return std::move(report_);
  const wait_division division(traces_, matched_, report_.tensors);
  for (std::size_t i = 0; i < traces_.size(); ++i)
    parts_.push_back(division.parts_of(i));
  times_ = step_times(traces_, report_.steps, parts_);
  for (const auto& step : times_)
    walls_.push_back(mean_wall(step));
  report_.begin = time_of(report_.steps.steps.front().ranks.front().begin);
  report_.end = time_of(report_.steps.steps.back().ranks.front().end);
  report_.median = median_of(walls_);
  add_means();
  add_stragglers();
  add_paths();
  return std::move(report_);
}

void job_reporter::add_means() {
  trace_time wall{0}, blocked{0};
  for (std::size_t i = 0; i < traces_.size(); ++i) {
    rank_report rank{traces_[i].rank, traces_[i].host, {}};
    for (const auto& step : times_)
      add(rank.time, step[i]);
    divide(rank.time, static_cast<std::int64_t>(times_.size()));
    wall += rank.time.wall;
    blocked += rank.time.blocked_total();
    add(report_.mean, rank.time);
    report_.ranks.push_back(std::move(rank));
  }
  divide(report_.mean, static_cast<std::int64_t>(traces_.size()));
  report_.blocked_share = static_cast<double>(blocked.count()) / static_cast<double>(wall.count());
}

void job_reporter::add_stragglers() {
  for (auto& found : find_stragglers(traces_, times_, report_.size)) {
    const auto& step = report_.steps.steps[found.onset];
    report_.stragglers.push_back({found, step.number, time_of(step.ranks.front().begin)});
  }
  std::vector<trace_time> expected;
  for (std::size_t step = 0; step < times_.size(); ++step)
    expected.push_back(walls_[step] - saved_in(step));
  report_.expected = median_of(expected);
}

// Without a straggler, the ranks that wait for it continue earlier, and so do all ranks: they leave each operation
// together.
trace_time job_reporter::saved_in(std::size_t step) const {
  trace_time saved{0};
  for (const auto& [found, number, time] : report_.stragglers) {
    trace_time total{0};
    std::int64_t waiting = 0;
    for (std::size_t i = 0; i < traces_.size(); ++i) {
      if (found.rank >= 0 ? traces_[i].rank == found.rank : traces_[i].host == found.host)
        continue;
      ++waiting;
      for (const auto& [rank, blocked] : times_[step][i].blocked)
        if (found.rank >= 0 && rank == found.rank)
          total += blocked.avoidable;
        else if (found.rank < 0 && host_of(rank) == found.host)
          total += blocked.total();
    }
    if (waiting > 0)
      saved += total / waiting;
  }
  return saved;
}

/// Empty: the rank has no record.
std::string_view job_reporter::host_of(std::int32_t rank) const {
  const auto trace = std::ranges::lower_bound(traces_, rank, {}, &rank_trace::rank);
  return trace != traces_.end() && trace->rank == rank ? std::string_view(trace->host) : std::string_view();
}

reported_path job_reporter::path_of(std::size_t step) const {
  const auto& found = report_.steps.steps[step];
  return {found.number, walls_[step], critical_path(traces_, matched_, parts_, found)};
}

void job_reporter::add_paths() {
  const auto median = std::ranges::find(walls_, report_.median);
  report_.median_path = path_of(static_cast<std::size_t>(median - walls_.begin()));
  const auto first = walls_.end() - static_cast<std::ptrdiff_t>(std::min(walls_.size(), recent_steps));
  const auto slowest = std::max_element(first, walls_.end());
  report_.slowest = *slowest;
  report_.slowest_path = path_of(static_cast<std::size_t>(slowest - walls_.begin()));
}

} // namespace

std::vector<member_record> members_in(const record_files& found,
                                      const std::vector<rank_activity>& activities) {
  std::vector<member_record> members;
  for (const auto& activity : activities)
    if (activity.rank >= 0)
      members.push_back({&found.files[activity.file].record, activity});
  return members;
}

job_report report_job(const std::vector<member_record>& members, const tick_reading& reading) {
  return job_reporter(members, reading).report();
}

} // namespace farandole
