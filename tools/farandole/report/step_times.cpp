#include "tools/farandole/report/step_times.hpp"

#include <algorithm>

namespace farandole {

namespace {

trace_time overlap(const time_span& span, trace_time begin, trace_time end) {
  return std::max(trace_time{0}, std::min(span.end, end) - std::max(span.begin, begin));
}

void add(step_time& step, const wait_part& part, trace_time length) {
  switch (part.use) {
  case time_use::late_call: {
    auto& blocked = step.blocked[part.rank];
    const auto outside = std::min(length, part.outside);
    blocked.call += length;
    blocked.outside += outside;
    if (part.by_leader)
      blocked.unclear += length - outside;
    break;
  }
  case time_use::late_message:
    step.blocked[part.rank].message += length;
    break;
  case time_use::late_transfer:
    step.blocked[part.rank].transfer += length;
    break;
  case time_use::negotiation:
    step.negotiation += length;
    break;
  case time_use::queue:
    step.queue += length;
    break;
  default:
    step.transfer += length;
    break;
  }
  if (part.uncertain.count() > 0)
    step.blocked[part.rank].uncertain += std::min(length, part.uncertain);
  // What can be avoided is the end of the part, but a part rarely reaches into two steps.
  if (part.avoidable.count() > 0)
    step.blocked[part.rank].avoidable += std::min(length, part.avoidable);
}

/// Intervals in order of time, without overlaps.
std::vector<time_span> transfers_of(const rank_trace& trace) {
  std::vector<time_span> spans;
  for (const auto& [bundle, transfer] : trace.transfers)
    spans.push_back({transfer.begin, transfer.end});
  std::ranges::sort(spans, {}, &time_span::begin);
  std::vector<time_span> merged;
  for (const auto& span : spans)
    if (merged.empty() || span.begin > merged.back().end)
      merged.push_back(span);
    else
      merged.back().end = std::max(merged.back().end, span.end);
  return merged;
}

/// Calls `use` for each interval that reaches into the span. The intervals are sorted and do not overlap.
template <class Intervals, class Use>
void for_each_in(const time_span& span, const Intervals& intervals, Use use) {
  auto next = std::ranges::partition_point(intervals,
                                           [&](const auto& interval) { return interval.end <= span.begin; });
  for (; next != intervals.end() && next->begin < span.end; ++next)
    use(*next);
}

} // namespace

blocked_time& blocked_time::operator+=(const blocked_time& other) {
  call += other.call;
  outside += other.outside;
  unclear += other.unclear;
  message += other.message;
  transfer += other.transfer;
  uncertain += other.uncertain;
  avoidable += other.avoidable;
  return *this;
}

blocked_time& blocked_time::operator/=(std::int64_t count) {
  for (auto* part : {&call, &outside, &unclear, &message, &transfer, &uncertain, &avoidable})
    *part /= count;
  return *this;
}

trace_time step_time::blocked_total() const {
  trace_time total{0};
  for (const auto& [rank, time] : blocked)
    total += time.total();
  return total;
}

std::vector<std::vector<step_time>> step_times(std::span<const rank_trace> traces, const job_steps& steps,
                                               const std::vector<std::vector<wait_part>>& parts) {
  std::vector<std::vector<step_time>> times(steps.steps.size(), std::vector<step_time>(traces.size()));
  for (std::size_t trace = 0; trace < traces.size(); ++trace) {
    const auto transfers = transfers_of(traces[trace]);
    for (std::size_t i = 0; i < steps.steps.size(); ++i) {
      const auto& span = steps.steps[i].ranks[trace];
      auto& step = times[i][trace];
      trace_time waited{0}, moved{0}, both{0};
      for_each_in(span, parts[trace], [&](const wait_part& part) {
        const auto length = overlap(span, part.begin, part.end);
        waited += length;
        add(step, part, length);
      });
      for_each_in(span, transfers, [&](const time_span& transfer) {
        const time_span inside{std::max(span.begin, transfer.begin), std::min(span.end, transfer.end)};
        moved += inside.length();
        for_each_in(inside, parts[trace],
                    [&](const wait_part& part) { both += overlap(inside, part.begin, part.end); });
      });
      step.wall = span.length();
      step.outside = step.wall - waited;
      step.hidden = moved - both;
    }
  }
  return times;
}

} // namespace farandole
