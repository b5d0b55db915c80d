#include "elastic/blacklist.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace farandole {

namespace {

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
  if (!range_ || !holds(host, now))
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

} // namespace farandole
