#include "tools/farandole/report/matched_calls.hpp"

#include <algorithm>
#include <map>

namespace farandole {

namespace {

/// Calls at the end of a record that are compared with those of another one.
constexpr std::size_t compared_calls = 64;

using positions = std::vector<std::size_t>; // of the calls of one tensor, in the calls of a trace

/// A number that is the same on all ranks; nothing if a call has none.
std::optional<std::pair<bool, std::uint64_t>> mark_of(const traced_call& call) {
  if (call.round)
    return std::pair(true, *call.round);
  if (call.sequence)
    return std::pair(false, *call.sequence);
  return std::nullopt;
}

/// The last call of a record with each mark, as a number among the calls of a tensor.
using mark_numbers = std::map<std::pair<bool, std::uint64_t>, std::size_t>;

mark_numbers marks_of(const rank_trace& trace, const positions& calls) {
  mark_numbers last;
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (const auto mark = mark_of(trace.calls[calls[i]]))
      last[*mark] = i;
  return last;
}

/// By how much the numbers of calls differ, according to rounds and sequence numbers. A round may occur again after the
/// tensor has left the fast path, so the last occurrence counts, and most calls must agree.
std::optional<std::int64_t> shift_by_marks(const mark_numbers& base_marks, const rank_trace& other,
                                           const positions& other_calls) {
  std::map<std::int64_t, std::size_t> votes;
  const auto first = other_calls.size() - std::min(other_calls.size(), compared_calls);
  for (auto i = first; i < other_calls.size(); ++i)
    if (const auto mark = mark_of(other.calls[other_calls[i]]))
      if (const auto found = base_marks.find(*mark); found != base_marks.end())
        ++votes[static_cast<std::int64_t>(found->second) - static_cast<std::int64_t>(i)];
  if (votes.empty())
    return std::nullopt;
  return std::ranges::max_element(votes, {}, [](const auto& vote) { return vote.second; })->first;
}

/// All ranks whose times are comparable see the end of an operation at nearly the same time.
std::optional<std::int64_t> shift_by_times(const rank_trace& base, const positions& base_calls,
                                           const rank_trace& other, const positions& other_calls) {
  std::optional<std::int64_t> shift;
  auto nearest = trace_time::max();
  for (auto i = other_calls.size(); i-- > 0;) {
    const auto& settled = other.calls[other_calls[i]].settled;
    if (!settled)
      continue;
    for (std::size_t j = 0; j < base_calls.size(); ++j)
      if (const auto& end = base.calls[base_calls[j]].settled)
        if (const auto distance = std::chrono::abs(*end - *settled); distance < nearest) {
          nearest = distance;
          shift = static_cast<std::int64_t>(j) - static_cast<std::int64_t>(i);
        }
    break;
  }
  return shift;
}

std::optional<std::int64_t> shift_between(const rank_trace& base, const positions& base_calls,
                                          const mark_numbers& base_marks, const rank_trace& other,
                                          const positions& other_calls) {
  if (const auto shift = shift_by_marks(base_marks, other, other_calls))
    return shift;
  if (base.whole && other.whole)
    return 0;
  if (base.axis == other.axis)
    return shift_by_times(base, base_calls, other, other_calls);
  return std::nullopt;
}

class call_matcher {
public:
  explicit call_matcher(std::span<const rank_trace> traces) : traces_(traces) {
    for (const auto& trace : traces)
      result_.operation_of.emplace_back(trace.calls.size());
  }

  /// `calls`: by trace.
  void match(std::uint32_t tensor, const std::vector<positions>& calls);
  matched_calls take() { return std::move(result_); }

private:
  std::size_t add(std::uint32_t tensor, std::int64_t number);
  void assign(std::size_t operation, std::size_t trace, std::size_t call);

  std::span<const rank_trace> traces_;
  matched_calls result_;
};

void call_matcher::match(std::uint32_t tensor, const std::vector<positions>& calls) {
  const auto base = static_cast<std::size_t>(
      std::ranges::find_if(calls, [](const positions& list) { return !list.empty(); }) - calls.begin());
  const auto base_marks = marks_of(traces_[base], calls[base]);
  std::map<std::int64_t, std::size_t> by_number;
  for (auto trace = base; trace < traces_.size(); ++trace) {
    const auto shift =
        trace == base ? std::optional<std::int64_t>(0)
                      : shift_between(traces_[base], calls[base], base_marks, traces_[trace], calls[trace]);
    for (std::size_t i = 0; i < calls[trace].size(); ++i) {
      const auto number = static_cast<std::int64_t>(i) + shift.value_or(0);
      if (!shift) {
        assign(add(tensor, number), trace, calls[trace][i]);
        continue;
      }
      const auto [found, is_new] = by_number.try_emplace(number, 0);
      if (is_new)
        found->second = add(tensor, number);
      assign(found->second, trace, calls[trace][i]);
    }
  }
}

std::size_t call_matcher::add(std::uint32_t tensor, std::int64_t number) {
  matched_operation operation;
  operation.tensor = tensor;
  operation.number = number;
  operation.calls.resize(traces_.size());
  result_.operations.push_back(std::move(operation));
  return result_.operations.size() - 1;
}

void call_matcher::assign(std::size_t operation, std::size_t trace, std::size_t call) {
  result_.operations[operation].calls[trace] = call;
  result_.operation_of[trace][call] = operation;
}

} // namespace

matched_calls match_calls(std::span<const rank_trace> traces, std::size_t tensors) {
  std::vector<std::vector<positions>> calls(tensors, std::vector<positions>(traces.size()));
  for (std::size_t trace = 0; trace < traces.size(); ++trace)
    for (std::size_t call = 0; call < traces[trace].calls.size(); ++call)
      calls[traces[trace].calls[call].tensor][trace].push_back(call);
  call_matcher matcher(traces);
  for (std::size_t tensor = 0; tensor < tensors; ++tensor)
    if (std::ranges::any_of(calls[tensor], [](const positions& list) { return !list.empty(); }))
      matcher.match(static_cast<std::uint32_t>(tensor), calls[tensor]);
  return matcher.take();
}

} // namespace farandole
