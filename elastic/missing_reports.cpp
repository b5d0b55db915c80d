#include "elastic/missing_reports.hpp"

#include <algorithm>

namespace farandole {

missing_reports::step missing_reports::changed(bool forming, time_point current_time) {
  news_ = true;
  if (forming && !forming_) {
    begin_ = last_update_ = current_time;
    interval_ = first_report;
    next_report_ = current_time + interval_;
  }
  forming_ = forming;
  step result;
  if (forming_)
    result.call_next = call_at_next(current_time);
  return result;
}

missing_reports::step missing_reports::due(time_point current_time) {
  if (called_ && current_time >= *called_)
    called_.reset();
  step result;
  if (!forming_)
    return result;
  result.report = current_time >= next_report_;
  result.update = result.report || (news_ && current_time >= last_update_ + update_interval);
  result.waited = std::chrono::duration_cast<std::chrono::seconds>(current_time - begin_);
  if (result.report) {
    interval_ *= 2;
    next_report_ = std::max(next_report_ + interval_, current_time);
  }
  if (result.update) {
    last_update_ = current_time;
    news_ = false;
  }
  result.call_next = call_at_next(current_time);
  return result;
}

missing_reports::time_point missing_reports::next() const {
  return news_ ? std::min(next_report_, last_update_ + update_interval) : next_report_;
}

std::optional<missing_reports::time_point> missing_reports::call_at_next(time_point current_time) {
  const auto at = std::max(next(), current_time);
  if (called_ && *called_ <= at)
    return std::nullopt;
  return called_ = at;
}

std::string text_of(const awaited& missing, bool elastic) {
  const std::string noun = elastic ? "worker" : "rank";
  auto text = std::to_string(missing.arrived) + " of " + std::to_string(missing.size) + " " + noun + "s " +
              (missing.arrived == 1 ? "has" : "have") + " called init()";
  std::string list;
  for (const auto& member : missing.missing) {
    list += (list.empty() ? "" : ", ") + noun + " " + std::to_string(member.slot);
    if (!member.host.empty())
      list += " on " + member.host;
  }
  const auto unnamed = static_cast<std::int64_t>(missing.size) - missing.arrived -
                       static_cast<std::int64_t>(missing.missing.size());
  if (unnamed > 0)
    list += (list.empty() ? "" : " and ") + std::to_string(unnamed) +
            (list.empty() ? " not started yet" : " more");
  return list.empty() ? text : text + "; missing: " + list;
}

} // namespace farandole
