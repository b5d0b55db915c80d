#include "elastic/blacklist.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace farandole {

namespace {

using std::chrono::milliseconds;

// Without a rule there is no longest stay; this one only keeps numbers in range.
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

bool blacklist::add(const std::string& host, time_point now, double uniform) {
  if (holds(host, now))
    return false;
  auto& entry = hosts_[host];
  entry.until =
      range_ ? now + std::chrono::duration_cast<time_point::duration>(delay(*range_, entry.times, uniform))
             : time_point::max();
  ++entry.times;
  return true;
}

bool blacklist::holds(const std::string& host, time_point now) const {
  const auto found = hosts_.find(host);
  return found != hosts_.end() && now < found->second.until;
}

auto blacklist::returns_at(const std::string& host, time_point now) const -> std::optional<time_point> {
  if (!holds(host, now) || hosts_.at(host).until == time_point::max())
    return std::nullopt;
  return hosts_.at(host).until;
}

auto blacklist::next_return(time_point now) const -> std::optional<time_point> {
  std::optional<time_point> earliest;
  for (const auto& [host, entry] : hosts_)
    if (const auto at = returns_at(host, now); at && (!earliest || *at < *earliest))
      earliest = at;
  return earliest;
}

std::vector<failed_host> blacklist::image(time_point now, wall_time wall) const {
  std::vector<failed_host> hosts;
  hosts.reserve(hosts_.size());
  for (const auto& [name, entry] : hosts_) {
    auto& host = hosts.emplace_back(failed_host{name, entry.times, {}, entry.until == time_point::max()});
    if (!host.for_good)
      host.until = std::max(wall_time{}, wall + std::chrono::ceil<milliseconds>(entry.until - now));
  }
  return hosts;
}

void blacklist::restore(const std::vector<failed_host>& hosts, time_point now, wall_time wall) {
  assert(hosts_.empty());
  const milliseconds longest = range_ ? milliseconds(range_->highest) : milliseconds(longest_stay);
  for (const auto& host : hosts) {
    auto& entry = hosts_[host.name];
    entry.times = host.times;
    if (host.for_good && !range_)
      entry.until = time_point::max();
    else
      entry.until = now + (host.for_good ? longest : std::clamp(host.until - wall, milliseconds(0), longest));
  }
}

} // namespace farandole
