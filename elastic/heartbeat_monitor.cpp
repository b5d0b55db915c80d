#include "elastic/heartbeat_monitor.hpp"

#include <algorithm>
#include <utility>

namespace farandole {

void heartbeat_monitor::watch(std::int32_t rank) {
  watched_.try_emplace(rank);
}

void heartbeat_monitor::observe(std::int32_t rank, std::uint32_t word) {
  auto& entry = watched_[rank];
  if (entry.word != word)
    entry.lasted = duration::zero();
  entry.word = word;
}

void heartbeat_monitor::beat(std::int32_t rank) {
  watched_[rank].lasted = duration::zero();
}

void heartbeat_monitor::report(std::int32_t reporter, std::vector<silence> silent) {
  reports_[reporter] = std::move(silent);
}

void heartbeat_monitor::look(time_point current_time) {
  const auto since = looked_ ? std::min<duration>(current_time - *looked_, 2 * period_) : duration::zero();
  looked_ = current_time;
  for (auto& [rank, watched] : watched_)
    watched.lasted += since;
}

std::map<std::int32_t, silence> heartbeat_monitor::gather(duration minimum, std::int32_t but_of) const {
  std::map<std::int32_t, silence> found;
  for (const auto& [reporter, silences] : reports_)
    for (const auto& silent_member : silences)
      if (reporter != but_of && silent_member.lasted >= minimum && !watched_.contains(silent_member.rank)) {
        auto& longest = found.try_emplace(silent_member.rank, silent_member).first->second;
        longest.lasted = std::max(longest.lasted, silent_member.lasted);
      }
  for (const auto& [rank, watched] : watched_)
    if (watched.lasted >= minimum)
      found[rank] = {rank, watched.lasted};
  return found;
}

std::vector<silence> heartbeat_monitor::silent(duration minimum) const {
  std::vector<silence> all;
  for (const auto& [rank, silent_member] : gather(minimum, -1))
    all.push_back(silent_member);
  return all;
}

std::vector<silence> heartbeat_monitor::news_for(std::int32_t receiver, duration minimum) const {
  std::vector<silence> all;
  for (const auto& [rank, silent_member] : gather(minimum, receiver))
    if (rank != receiver)
      all.push_back(silent_member);
  return all;
}

} // namespace farandole
