#include "elastic/blacklist.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace farandole {

namespace {

using std::chrono::milliseconds;

// Without a cooldown no limit applies to a stay; this one only keeps the arithmetic in range.
constexpr std::chrono::hours longest_stay{24 * 365};

std::chrono::nanoseconds delay(const blacklist::cooldown& range, std::int32_t earlier, double uniform) {
  assert(range.lowest.count() >= 1 && range.lowest <= range.highest);
  assert(uniform >= 0 && uniform < 1);
  using seconds = std::chrono::duration<double>;
  const seconds lowest = range.lowest, highest = range.highest;
  const seconds wanted = lowest * std::exp2(earlier) + lowest * uniform; // may be infinite
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::clamp(wanted, lowest, highest));
}

} // namespace

bool blacklist::add(const std::string& host, time_point current_time, double uniform) {
  if (holds(host, current_time))
    return false;
  auto& entry = hosts_[host];
  entry.deadline = range_ ? current_time + std::chrono::duration_cast<time_point::duration>(
                                               delay(*range_, entry.times, uniform))
                          : time_point::max();
  ++entry.times;
  return true;
}

bool blacklist::holds(const std::string& host, time_point current_time) const {
  const auto found = hosts_.find(host);
  return found != hosts_.end() && current_time < found->second.deadline;
}

auto blacklist::returns_at(const std::string& host, time_point current_time) const
    -> std::optional<time_point> {
  if (!holds(host, current_time) || hosts_.at(host).deadline == time_point::max())
    return std::nullopt;
  return hosts_.at(host).deadline;
}

auto blacklist::next_return(time_point current_time) const -> std::optional<time_point> {
  std::optional<time_point> earliest;
  for (const auto& [host, entry] : hosts_)
    if (const auto at = returns_at(host, current_time); at && (!earliest || *at < *earliest))
      earliest = at;
  return earliest;
}

std::vector<failed_host> blacklist::image(time_point current_time, wall_time wall) const {
  std::vector<failed_host> hosts;
  hosts.reserve(hosts_.size());
  for (const auto& [name, entry] : hosts_) {
    auto& host = hosts.emplace_back(failed_host{name, entry.times, {}, entry.deadline == time_point::max()});
    if (!host.for_good)
      host.deadline =
          std::max(wall_time{}, wall + std::chrono::ceil<milliseconds>(entry.deadline - current_time));
  }
  return hosts;
}

void blacklist::restore(const std::vector<failed_host>& hosts, time_point current_time, wall_time wall) {
  assert(hosts_.empty());
  const milliseconds longest = range_ ? milliseconds(range_->highest) : milliseconds(longest_stay);
  for (const auto& host : hosts) {
    auto& entry = hosts_[host.name];
    entry.times = host.times;
    if (host.for_good && !range_)
      entry.deadline = time_point::max();
    else
      entry.deadline = current_time +
                       (host.for_good ? longest : std::clamp(host.deadline - wall, milliseconds(0), longest));
  }
}

} // namespace farandole
