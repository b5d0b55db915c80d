#include "elastic/heartbeat_monitor.hpp"

#include <algorithm>
#include <utility>

namespace farandole {

void heartbeat_monitor::watch(std::int32_t rank) {
  watched_.try_emplace(rank);
}

void heartbeat_monitor::observe(std::int32_t rank, std::uint32_t word) {
  auto& seen = watched_[rank];
  if (seen.word != word)
    seen.lasted = duration::zero();
  seen.word = word;
}

void heartbeat_monitor::beat(std::int32_t rank) {
  watched_[rank].lasted = duration::zero();
}

void heartbeat_monitor::told(std::int32_t teller, std::vector<silence> silent) {
  told_[teller] = std::move(silent);
}

void heartbeat_monitor::look(time_point now) {
  const auto since = looked_ ? std::min<duration>(now - *looked_, 2 * period_) : duration::zero();
  looked_ = now;
  for (auto& [rank, seen] : watched_)
    seen.lasted += since;
}

std::map<std::int32_t, silence> heartbeat_monitor::gather(duration least, std::int32_t but_of) const {
  std::map<std::int32_t, silence> found;
  for (const auto& [teller, silences] : told_)
    for (const auto& each : silences)
      if (teller != but_of && each.lasted >= least && !watched_.contains(each.rank)) {
        auto& longest = found.try_emplace(each.rank, each).first->second;
        longest.lasted = std::max(longest.lasted, each.lasted);
      }
  for (const auto& [rank, seen] : watched_)
    if (seen.lasted >= least)
      found[rank] = {rank, seen.lasted};
  return found;
}

std::vector<silence> heartbeat_monitor::silent(duration least) const {
  std::vector<silence> all;
  for (const auto& [rank, each] : gather(least, -1))
    all.push_back(each);
  return all;
}

std::vector<silence> heartbeat_monitor::news_for(std::int32_t receiver, duration least) const {
  std::vector<silence> all;
  for (const auto& [rank, each] : gather(least, receiver))
    if (rank != receiver)
      all.push_back(each);
  return all;
}

} // namespace farandole
