#include "tools/farandole/report/job_steps.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "tools/farandole/report/step_cycle.hpp"

namespace farandole {

namespace {

std::map<std::uint64_t, trace_time> mark_times(const rank_trace& trace) {
  std::map<std::uint64_t, trace_time> times;
  for (const auto& mark : trace.marks)
    times[mark.number] = mark.time;
  return times;
}

job_steps marked_steps(std::span<const rank_trace> traces) {
  job_steps found;
  found.marked = true;
  std::vector<std::map<std::uint64_t, trace_time>> times;
  for (const auto& trace : traces)
    times.push_back(mark_times(trace));
  for (const auto& [number, end] : times.front()) {
    job_step step;
    step.number = static_cast<std::int64_t>(number);
    for (std::size_t i = 0; i < traces.size(); ++i) {
      const auto before = times[i].find(number - 1), after = times[i].find(number);
      if (before == times[i].end() || after == times[i].end() || before->second < traces[i].begin)
        break;
      step.ranks.push_back({before->second, after->second});
    }
    if (step.ranks.size() == traces.size())
      found.steps.push_back(std::move(step));
  }
  if (found.steps.empty())
    found.problem = "no step has both of its marks in the records of all ranks";
  return found;
}

/// Which tensors are called by all of these ranks.
std::vector<bool> common_tensors(const matched_calls& matched, std::size_t tensors) {
  std::vector<bool> common(tensors);
  for (const auto& operation : matched.operations)
    if (std::ranges::all_of(operation.calls, [](const auto& call) { return call.has_value(); }))
      common[operation.tensor] = true;
  return common;
}

/// Finds the spans of steps that begin with the first of these tensors and end with any.
class step_cutter {
public:
  step_cutter(std::span<const rank_trace> traces, const std::vector<std::uint32_t>& beginnings)
      : traces_(traces) {
    for (const auto& trace : traces) {
      auto& places = places_.emplace_back();
      for (std::size_t call = 0; call < trace.calls.size(); ++call)
        if (std::ranges::find(beginnings, trace.calls[call].tensor) != beginnings.end())
          places.push_back(call);
    }
  }

  std::optional<job_step> step_from(const matched_operation& first) const {
    job_step step;
    step.number = first.number;
    for (std::size_t i = 0; i < traces_.size(); ++i) {
      const auto span = first.calls[i] ? span_from(i, *first.calls[i]) : std::nullopt;
      if (!span)
        return std::nullopt;
      step.ranks.push_back(*span);
    }
    return step;
  }

private:
  std::optional<time_span> span_from(std::size_t trace, std::size_t call) const {
    const auto next = std::ranges::upper_bound(places_[trace], call);
    const auto& calls = traces_[trace].calls;
    if (next == places_[trace].end() || calls[call].called < traces_[trace].begin)
      return std::nullopt;
    return time_span{calls[call].called, calls[*next].called};
  }

  std::span<const rank_trace> traces_;
  std::vector<std::vector<std::size_t>> places_; ///< by trace: calls that begin a step of any kind
};

job_steps inferred_steps(std::span<const rank_trace> traces, const matched_calls& matched,
                         const traced_tensors& tensors) {
  job_steps found;
  const auto common = common_tensors(matched, tensors.size());
  std::vector<std::uint32_t> names;
  for (const auto& call : traces.front().calls)
    if (common[call.tensor])
      names.push_back(call.tensor);
  const auto beginnings = step_beginnings(names);
  if (beginnings.empty()) {
    found.problem = "no names of tensors recur regularly on all ranks";
    return found;
  }
  found.first = tensors.at(beginnings.front());
  const step_cutter cutter(traces, beginnings);
  for (const auto& operation : matched.operations) {
    if (operation.tensor == beginnings.front()) {
      if (auto step = cutter.step_from(operation))
        found.steps.push_back(std::move(*step));
    } else if (std::ranges::find(beginnings, operation.tensor) != beginnings.end()) {
      ++found.other_kinds;
    }
  }
  std::ranges::sort(found.steps, {}, &job_step::number);
  for (std::size_t i = 0; i < found.steps.size(); ++i)
    found.steps[i].number = static_cast<std::int64_t>(i) + 1;
  if (found.steps.empty())
    found.problem = "no step is complete in the records of all ranks";
  return found;
}

} // namespace

job_steps find_steps(std::span<const rank_trace> traces, const matched_calls& matched,
                     const traced_tensors& tensors) {
  job_steps none;
  none.problem = "no record is one of a rank of the job";
  if (traces.empty())
    return none;
  const bool marked =
      std::ranges::all_of(traces, [](const rank_trace& trace) { return trace.marks.size() > 1; });
  return marked ? marked_steps(traces) : inferred_steps(traces, matched, tensors);
}

} // namespace farandole
