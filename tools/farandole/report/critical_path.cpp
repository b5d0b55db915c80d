#include "tools/farandole/report/critical_path.hpp"

#include <algorithm>

namespace farandole {

namespace {

class path_walk {
public:
  path_walk(std::span<const rank_trace> traces, const matched_calls& matched,
            const std::vector<std::vector<wait_part>>& parts, const job_step& step)
      : traces_(traces), matched_(matched), parts_(parts), step_(step) {}

  std::vector<path_segment> from_end() {
    trace_ = last_trace();
    time_ = step_.ranks[trace_].end;
    // Estimated times of other hosts may contradict each other, so the number of steps back is limited.
    std::size_t steps_back = 2;
    for (std::size_t i = 0; i < traces_.size(); ++i)
      steps_back += 2 * parts_[i].size() + traces_[i].calls.size();
    for (; time_ > begin() && steps_back > 0; --steps_back)
      go_back();
    std::ranges::reverse(segments_);
    return std::move(segments_);
  }

private:
  trace_time begin() const { return step_.ranks[trace_].begin; }

  /// The rank that ends the step last. If their times cannot be compared, the one for which the rank with the longest step
  /// waits next.
  std::size_t last_trace() const {
    const auto same_axis = [&](const rank_trace& trace) { return trace.axis == traces_.front().axis; };
    const auto& ranks = step_.ranks;
    if (std::ranges::all_of(traces_, same_axis))
      return static_cast<std::size_t>(std::ranges::max_element(ranks, {}, &time_span::end) - ranks.begin());
    const auto longest =
        static_cast<std::size_t>(std::ranges::max_element(ranks, {}, &time_span::length) - ranks.begin());
    const auto next = std::ranges::partition_point(
        parts_[longest], [&](const wait_part& part) { return part.begin < ranks[longest].end; });
    if (next == parts_[longest].end() || next->use != time_use::late_call || !next->operation)
      return longest;
    const auto& own = matched_.operations[*next->operation].calls[longest];
    const auto other = std::ranges::find(traces_, next->rank, &rank_trace::rank);
    if (!own || traces_[longest].calls[*own].called != ranks[longest].end || other == traces_.end())
      return longest;
    return static_cast<std::size_t>(other - traces_.begin());
  }

  void go_back() {
    const auto& parts = parts_[trace_];
    const auto after =
        std::ranges::partition_point(parts, [&](const wait_part& part) { return part.begin < time_; });
    if (after == parts.begin() || std::prev(after)->end < time_) {
      const auto end = after == parts.begin() ? begin() : std::prev(after)->end;
      return add(time_use::outside, traces_[trace_].rank, end, called_between(end, time_));
    }
    const auto& part = *std::prev(after);
    if (part.use == time_use::late_call && go_to(part))
      return;
    const bool is_late = part.use == time_use::late_transfer || part.use == time_use::late_message;
    const auto rank = is_late ? part.rank : traces_[trace_].rank;
    add(part.use, rank, part.begin, tensor_of(part));
  }

  /// Continues at the call of the rank for which this one waited.
  bool go_to(const wait_part& part) {
    const auto other = std::ranges::find(traces_, part.rank, &rank_trace::rank);
    if (other == traces_.end() || !part.operation)
      return false;
    const auto trace = static_cast<std::size_t>(other - traces_.begin());
    const auto& call = matched_.operations[*part.operation].calls[trace];
    if (!call || trace == trace_)
      return false;
    trace_ = trace;
    time_ = other->calls[*call].called;
    return true;
  }

  std::optional<std::uint32_t> tensor_of(const wait_part& part) const {
    if (!part.operation)
      return std::nullopt;
    return matched_.operations[*part.operation].tensor;
  }

  /// The tensor that this rank called last, if it did so after `begin`.
  std::optional<std::uint32_t> called_between(trace_time begin, trace_time end) const {
    const auto& calls = traces_[trace_].calls;
    const auto after =
        std::ranges::partition_point(calls, [&](const traced_call& call) { return call.called <= end; });
    if (after == calls.begin() || std::prev(after)->called < begin)
      return std::nullopt;
    return std::prev(after)->tensor;
  }

  void add(time_use use, std::int32_t rank, trace_time to, std::optional<std::uint32_t> tensor) {
    to = std::max(to, begin());
    const auto length = time_ - to;
    time_ = to;
    if (!segments_.empty() && segments_.back().rank == rank && segments_.back().use == use) {
      segments_.back().length += length;
      if (!segments_.back().tensor)
        segments_.back().tensor = tensor;
    } else if (length.count() > 0) {
      segments_.push_back({rank, use, length, tensor});
    }
  }

  std::span<const rank_trace> traces_;
  const matched_calls& matched_;
  const std::vector<std::vector<wait_part>>& parts_;
  const job_step& step_;
  std::size_t trace_ = 0;
  trace_time time_{0};
  std::vector<path_segment> segments_; ///< latest first
};

} // namespace

std::vector<path_segment> critical_path(std::span<const rank_trace> traces, const matched_calls& matched,
                                        const std::vector<std::vector<wait_part>>& parts,
                                        const job_step& step) {
  return path_walk(traces, matched, parts, step).from_end();
}

} // namespace farandole
