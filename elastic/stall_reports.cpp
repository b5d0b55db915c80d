#include "elastic/stall_reports.hpp"

#include <algorithm>
#include <utility>

namespace farandole {

stall_reports::step stall_reports::take(const stall_origin& origin, stall_notice notice,
                                        time_point current_time) {
  entries_.erase(origin);
  if (!notice.tensors.empty() && entries_.size() < most_origins)
    store(origin, std::move(notice), current_time);
  return decide(current_time);
}

void stall_reports::store(const stall_origin& origin, stall_notice notice, time_point current_time) {
  std::size_t stored = 0;
  for (const auto& [other, entry] : entries_)
    stored += entry.notice.tensors.size();
  notice.tensors.resize(std::min(notice.tensors.size(), most_tensors - stored));
  for (auto& tensor : notice.tensors)
    tensor.name.resize(std::min(tensor.name.size(), most_name_bytes));
  entries_[origin] = {std::move(notice), current_time};
}

stall_reports::step stall_reports::due(time_point current_time) {
  if (called_ && current_time >= *called_)
    called_.reset();
  return decide(current_time);
}

stall_reports::step stall_reports::decide(time_point current_time) {
  const bool is_reported = !reported_ranks_.empty();
  step result;
  if (!overdue()) {
    if (is_reported)
      result.report = report_end(current_time);
    return result;
  }
  if (!is_reported || current_time >= next_report_ || names_further_ranks())
    report(result, current_time);
  result.call_next = call_at_next(current_time);
  return result;
}

// Sources send a notice when their first tensor has become overdue. So the age that a notice states is compared, not
// its present age: the tensor may be complete by now.
bool stall_reports::overdue() const {
  return std::ranges::any_of(entries_, [this](const auto& entry) {
    return std::ranges::any_of(entry.second.notice.tensors, [this](const stalled_tensor& tensor) {
      return tensor.waited > rules_.warning && !tensor.missing.empty();
    });
  });
}

bool stall_reports::names_further_ranks() const {
  for (const auto& [origin, entry] : entries_)
    for (const auto& tensor : entry.notice.tensors)
      if (tensor.waited > rules_.warning && !std::ranges::includes(reported_ranks_, tensor.missing))
        return true;
  return false;
}

void stall_reports::report(step& result, time_point current_time) {
  if (reported_ranks_.empty()) {
    interval_ = rules_.warning;
    begin_ = current_time;
  } else if (current_time >= next_report_) {
    interval_ = std::min(2 * interval_, std::max<std::chrono::nanoseconds>(longest_interval, rules_.warning));
  }
  next_report_ = current_time + interval_;
  const auto sets = sets_at(current_time);
  std::set<std::int32_t> missing;
  for (const auto& set : sets)
    for (const auto& tensor : set.tensors) {
      begin_ = std::min(begin_, current_time - tensor.waited);
      missing.insert(tensor.missing.begin(), tensor.missing.end());
    }
  std::size_t count = 0;
  for (const auto& [origin, entry] : entries_)
    count += std::max<std::size_t>(entry.notice.count, entry.notice.tensors.size());
  result.report = {stall_warning(sets, count, rules_.warning_setting, rules_.effective_shutdown()), false};
  result.missing.assign(missing.begin(), missing.end());
  reported_ranks_.merge(missing);
}

stall_report stall_reports::report_end(time_point current_time) {
  reported_ranks_.clear();
  return {stall_end_notice(current_time - begin_, rules_.warning_setting), true};
}

std::vector<stalled_set> stall_reports::sets_at(time_point current_time) const {
  std::map<std::uint32_t, stalled_set> sets;
  for (const auto& [origin, entry] : entries_)
    for (auto tensor : entry.notice.tensors) {
      tensor.waited += current_time - entry.received;
      auto& set = sets[origin.set];
      set.id = origin.set;
      set.tensors.push_back(std::move(tensor));
    }
  std::vector<stalled_set> result;
  for (auto& [id, set] : sets) {
    std::ranges::stable_sort(set.tensors, std::ranges::greater{}, &stalled_tensor::waited);
    result.push_back(std::move(set));
  }
  return result;
}

std::optional<stall_reports::time_point> stall_reports::call_at_next(time_point current_time) {
  const auto time = std::max(next_report_, current_time);
  if (called_ && *called_ <= time)
    return std::nullopt;
  return called_ = time;
}

void stall_reports::forget(std::int32_t rank) {
  std::erase_if(entries_, [rank](const auto& entry) { return entry.first.rank == rank; });
  if (!overdue())
    reported_ranks_.clear();
}

void stall_reports::clear() {
  entries_.clear();
  reported_ranks_.clear();
}

} // namespace farandole
