#include "tools/farandole/report/stragglers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

namespace farandole {

namespace {

double nanoseconds(trace_time time) {
  return static_cast<double>(time.count());
}

double median_of(std::vector<double> values) {
  if (values.empty())
    return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Steps on which a test is made.
struct step_window {
  std::vector<std::size_t> steps;
  bool every_second = false;
};

/// Ranks or hosts, one of which is the cause of each step.
struct candidates {
  std::vector<std::vector<double>> waits;         ///< by step and position: of each rank outside of it, mean
  std::vector<std::vector<double>> certain;       ///< of these, without possible errors of the clocks
  std::vector<std::optional<std::size_t>> causes; ///< by step: the position of the largest

  void add_step(std::size_t count) {
    waits.emplace_back(count);
    certain.emplace_back(count);
  }
  /// To the last step.
  void add(std::size_t position, const blocked_time& blocked) {
    waits.back()[position] += nanoseconds(blocked.total());
    certain.back()[position] += nanoseconds(blocked.total() - blocked.uncertain);
  }
  void divide(std::size_t position, double waiting) {
    for (auto* step : {&waits.back(), &certain.back()})
      (*step)[position] = waiting > 0 ? (*step)[position] / waiting : 0;
  }
  void find_causes();
};

class straggler_search {
public:
  straggler_search(std::span<const rank_trace> traces, const std::vector<std::vector<step_time>>& times,
                   std::int32_t size, const straggler_rules& rules);
  std::vector<straggler> find();

private:
  void find_hosts();
  void collect_waits();
  void make_windows();
  /// The window in which a candidate is the cause more often than by chance. `among`: the steps that count.
  std::optional<std::size_t> test(std::size_t position, const candidates& all, double chance,
                                  const std::vector<bool>& among, std::size_t tests) const;
  void search_hosts(std::vector<straggler>& found);
  straggler describe_rank(std::size_t rank, std::size_t window) const;
  straggler describe_host(std::size_t host, std::size_t window) const;
  straggler describe(std::size_t position, const candidates& all, std::size_t window) const;
  /// Of the ranks for which others wait: all of a host, or a single one.
  void set_kind(straggler& result, std::span<const std::int32_t> ranks) const;
  bool alternates(std::size_t position, const candidates& all) const;
  std::size_t onset_of(std::size_t position, const candidates& all, const step_window& window) const;

  std::span<const rank_trace> traces_;
  const std::vector<std::vector<step_time>>& times_;
  std::int32_t size_;
  straggler_rules rules_;
  double median_step_ = 0;
  double blocked_ = 0; ///< of all ranks in all steps
  std::vector<std::string> host_names_;
  std::vector<std::vector<std::int32_t>> ranks_of_host_;
  std::vector<std::size_t> host_of_trace_;
  std::vector<std::optional<std::size_t>> trace_of_rank_;
  candidates ranks_, hosts_;
  std::vector<step_window> windows_;
  std::vector<bool> judged_; ///< by rank: with its host
};

straggler_search::straggler_search(std::span<const rank_trace> traces,
                                   const std::vector<std::vector<step_time>>& times, std::int32_t size,
                                   const straggler_rules& rules)
    : traces_(traces), times_(times), size_(std::max(size, static_cast<std::int32_t>(traces.size()))),
      rules_(rules), judged_(static_cast<std::size_t>(size_)) {
  find_hosts();
  collect_waits();
  make_windows();
}

void straggler_search::find_hosts() {
  std::map<std::string, std::size_t> numbers;
  trace_of_rank_.resize(static_cast<std::size_t>(size_));
  for (std::size_t trace = 0; trace < traces_.size(); ++trace) {
    const auto rank = traces_[trace].rank;
    const auto [found, is_new] = numbers.try_emplace(traces_[trace].host, numbers.size());
    if (is_new) {
      host_names_.push_back(traces_[trace].host);
      ranks_of_host_.emplace_back();
    }
    ranks_of_host_[found->second].push_back(rank);
    host_of_trace_.push_back(found->second);
    trace_of_rank_[static_cast<std::size_t>(rank)] = trace;
  }
}

void straggler_search::collect_waits() {
  std::vector<double> walls;
  const auto count = static_cast<double>(traces_.size());
  for (const auto& step : times_) {
    ranks_.add_step(static_cast<std::size_t>(size_));
    hosts_.add_step(host_names_.size());
    double wall = 0;
    for (std::size_t trace = 0; trace < step.size(); ++trace) {
      wall += nanoseconds(step[trace].wall) / static_cast<double>(step.size());
      for (const auto& [number, blocked] : step[trace].blocked) {
        blocked_ += nanoseconds(blocked.total());
        if (number < 0 || number >= size_ || number == traces_[trace].rank)
          continue;
        const auto rank = static_cast<std::size_t>(number);
        ranks_.add(rank, blocked);
        if (const auto cause = trace_of_rank_[rank]; cause && host_of_trace_[*cause] != host_of_trace_[trace])
          hosts_.add(host_of_trace_[*cause], blocked);
      }
    }
    walls.push_back(wall);
    for (std::size_t rank = 0; rank < trace_of_rank_.size(); ++rank)
      ranks_.divide(rank, count - (trace_of_rank_[rank] ? 1 : 0));
    for (std::size_t host = 0; host < host_names_.size(); ++host)
      hosts_.divide(host, count - static_cast<double>(ranks_of_host_[host].size()));
  }
  median_step_ = median_of(walls);
  ranks_.find_causes();
  hosts_.find_causes();
}

void candidates::find_causes() {
  for (const auto& step : certain) {
    const auto largest = std::ranges::max_element(step);
    causes.push_back(largest != step.end() && *largest > 0
                         ? std::optional(static_cast<std::size_t>(largest - step.begin()))
                         : std::nullopt);
  }
}

void straggler_search::make_windows() {
  step_window all, even, odd, late;
  even.every_second = odd.every_second = true;
  for (std::size_t step = 0; step < times_.size(); ++step) {
    all.steps.push_back(step);
    (step % 2 == 0 ? even : odd).steps.push_back(step);
    if (2 * step >= times_.size())
      late.steps.push_back(step);
  }
  windows_ = {all, late, even, odd};
}

std::optional<std::size_t> straggler_search::test(std::size_t position, const candidates& all, double chance,
                                                  const std::vector<bool>& among, std::size_t tests) const {
  const auto limit = rules_.chance_limit / static_cast<double>(tests * windows_.size());
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    std::size_t steps = 0, count = 0;
    double caused = 0;
    for (const auto step : windows_[i].steps) {
      if (!among[step])
        continue;
      ++steps;
      count += all.causes[step] == position ? 1 : 0;
      caused += all.certain[step][position];
    }
    if (steps >= rules_.fewest_steps && count > 0 &&
        caused >= rules_.least_share * median_step_ * static_cast<double>(steps) &&
        binomial_tail(count, steps, chance) < limit)
      return i;
  }
  return std::nullopt;
}

std::vector<straggler> straggler_search::find() {
  std::vector<straggler> found;
  if (size_ < 2 || times_.empty())
    return found;
  if (host_names_.size() > 1)
    search_hosts(found);
  const auto all = std::vector<bool>(times_.size(), true);
  const auto count = static_cast<std::size_t>(size_);
  for (std::size_t rank = 0; rank < count; ++rank)
    if (!judged_[rank])
      if (const auto window = test(rank, ranks_, 1 / static_cast<double>(count), all, count))
        found.push_back(describe_rank(rank, *window));
  std::ranges::stable_sort(found, std::ranges::greater(), &straggler::cost);
  return found;
}

void straggler_search::search_hosts(std::vector<straggler>& found) {
  const auto all = std::vector<bool>(times_.size(), true);
  for (std::size_t host = 0; host < host_names_.size(); ++host) {
    const auto& group = ranks_of_host_[host];
    const auto size = static_cast<double>(group.size());
    if (group.size() < 2)
      continue;
    const auto window = test(host, hosts_, size / static_cast<double>(size_), all, host_names_.size());
    if (!window)
      continue;
    std::vector<bool> on_host(times_.size());
    for (const auto rank : group) {
      judged_[static_cast<std::size_t>(rank)] = true;
      for (std::size_t step = 0; step < times_.size(); ++step)
        on_host[step] = on_host[step] || ranks_.causes[step] == static_cast<std::size_t>(rank);
    }
    bool by_rank = false;
    for (const auto number : group) {
      const auto rank = static_cast<std::size_t>(number);
      if (const auto own = test(rank, ranks_, 1 / size, on_host, group.size())) {
        by_rank = true;
        found.push_back(describe_rank(rank, *own));
      }
    }
    if (!by_rank)
      found.push_back(describe_host(host, *window));
  }
}

straggler straggler_search::describe_rank(std::size_t rank, std::size_t window) const {
  auto result = describe(rank, ranks_, window);
  result.rank = static_cast<std::int32_t>(rank);
  if (const auto trace = trace_of_rank_[rank])
    result.host = traces_[*trace].host;
  set_kind(result, std::span(&result.rank, 1));
  return result;
}

straggler straggler_search::describe_host(std::size_t host, std::size_t window) const {
  auto result = describe(host, hosts_, window);
  result.host = host_names_[host];
  set_kind(result, ranks_of_host_[host]);
  return result;
}

straggler straggler_search::describe(std::size_t position, const candidates& all, std::size_t window) const {
  straggler result;
  double caused = 0;
  for (std::size_t step = 0; step < times_.size(); ++step) {
    caused += all.waits[step][position];
    result.caused_steps += all.causes[step] == position ? 1 : 0;
  }
  result.cost = trace_time(static_cast<std::int64_t>(caused / static_cast<double>(times_.size())));
  result.alternates = windows_[window].every_second || alternates(position, all);
  result.onset = onset_of(position, all, windows_[window]);
  return result;
}

// On the fast path the record does not tell how long a rank waits within a transfer. A rank that copies slowly is then
// late for its next call, but not because it was outside the library.
void straggler_search::set_kind(straggler& result, std::span<const std::int32_t> ranks) const {
  blocked_time sum;
  for (const auto& step : times_)
    for (const auto& time : step)
      for (const auto rank : ranks)
        if (const auto found = time.blocked.find(rank); found != time.blocked.end())
          sum += found->second;
  const auto total = sum.total();
  result.share = blocked_ > 0 ? nanoseconds(total) / blocked_ : 0;
  const bool is_host = result.rank < 0;
  const auto trace = is_host ? std::nullopt : trace_of_rank_[static_cast<std::size_t>(result.rank)];
  const bool is_alone = trace && ranks_of_host_[host_of_trace_[*trace]].size() == 1; // on its host
  if (2 * sum.message > total)
    result.kind = straggler_kind::link;
  else if (2 * sum.outside > total)
    result.kind = is_host ? straggler_kind::host : straggler_kind::late_at_call;
  else if (2 * sum.unclear > total && (is_host || is_alone))
    result.kind = straggler_kind::host_or_link;
  else
    result.kind = is_host ? straggler_kind::host : straggler_kind::slow_in_transfer;
  if (result.kind == straggler_kind::link || result.kind == straggler_kind::host_or_link)
    result.rank = -1;
}

// If half of the steps suffice to name the rank, it may have been named for all of them.
bool straggler_search::alternates(std::size_t position, const candidates& all) const {
  std::array<std::size_t, 2> count{};
  for (std::size_t step = 0; step < times_.size(); ++step)
    count[step % 2] += all.causes[step] == position ? 1 : 0;
  const auto [fewer, more] = std::minmax(count[0], count[1]);
  return more >= rules_.fewest_steps && 10 * fewer <= more;
}

// A step counts if the candidate was its cause and cost at least half as much as usual in the last half of the steps. The
// onset is where their share begins to exceed half of the share in that half most clearly: the maximum of a cumulative
// sum from the end.
std::size_t straggler_search::onset_of(std::size_t position, const candidates& all,
                                       const step_window& window) const {
  const auto middle = window.steps.size() / 2;
  const auto caused = [&](std::size_t step) { return all.waits[step][position]; };
  double usual = 0;
  for (auto i = middle; i < window.steps.size(); ++i)
    usual += caused(window.steps[i]) / static_cast<double>(window.steps.size() - middle);
  std::vector<bool> counts;
  for (const auto step : window.steps)
    counts.push_back(all.causes[step] == position && caused(step) >= usual / 2);
  const auto late = std::count(counts.begin() + static_cast<std::ptrdiff_t>(middle), counts.end(), true);
  const auto threshold = static_cast<double>(late) / static_cast<double>(window.steps.size() - middle) / 2;
  auto onset = window.steps.back();
  double sum = 0, largest = 0;
  for (auto i = window.steps.size(); i-- > 0;) {
    sum += (counts[i] ? 1 : 0) - threshold;
    if (counts[i] && sum > largest) {
      largest = sum;
      onset = window.steps[i];
    }
  }
  return onset;
}

} // namespace

double binomial_tail(std::size_t count, std::size_t trials, double chance) {
  if (count == 0 || chance >= 1)
    return 1;
  double tail = 0;
  const auto n = static_cast<double>(trials);
  for (auto i = count; i <= trials; ++i) {
    const auto k = static_cast<double>(i);
    tail += std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) + k * std::log(chance) +
                     (n - k) * std::log1p(-chance));
  }
  return tail;
}

std::vector<straggler> find_stragglers(std::span<const rank_trace> traces,
                                       const std::vector<std::vector<step_time>>& times, std::int32_t size,
                                       const straggler_rules& rules) {
  return straggler_search(traces, times, size, rules).find();
}

} // namespace farandole
