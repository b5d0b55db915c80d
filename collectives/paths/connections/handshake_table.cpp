#include "collectives/paths/connections/handshake_table.hpp"

#include <algorithm>
#include <tuple>

namespace farandole {

handshake_limits handshake_limits::within(std::size_t descriptors) const {
  auto limits = *this;
  limits.connections = std::min(connections, std::max<std::size_t>(descriptors / 8, 16));
  limits.share = std::min(share, limits.connections / 2);
  return limits;
}

auto handshake_table::accept(connection which, const std::string& source, time_point now)
    -> std::optional<eviction> {
  std::optional<eviction> evicted;
  if (count(stage::waiting, source) >= limits_.share)
    evicted = evict(oldest_waiting_of(source), reason::share);
  else if (all_.size() - count(stage::shaking) >= limits_.connections)
    evicted = evict(most_dispensable(), reason::full);
  all_[which] = {stage::waiting, source, now};
  return evicted;
}

void handshake_table::ready(connection which) {
  if (auto found = all_.find(which); found != all_.end() && found->second.at == stage::waiting)
    found->second.at = stage::ready;
}

// Expected sources first; among equals the source that has fewest handshakes, so that one cannot take all
// places; then the oldest.
auto handshake_table::begin_next(time_point now) -> std::optional<connection> {
  if (count(stage::shaking) >= limits_.shaking)
    return std::nullopt;
  auto next = all_.end();
  std::tuple<bool, std::size_t> best;
  for (auto position = all_.begin(); position != all_.end(); ++position) {
    const auto& one = position->second;
    if (one.at != stage::ready)
      continue;
    const std::tuple order{!is_expected(one), count(stage::shaking, one.source)};
    if (next == all_.end() || order < best) {
      next = position;
      best = order;
    }
  }
  if (next == all_.end())
    return std::nullopt;
  next->second.at = stage::shaking;
  next->second.since = now;
  return next->first;
}

auto handshake_table::overdue(time_point now) -> std::vector<eviction> {
  std::vector<eviction> evicted;
  const bool others_wait = contended();
  for (auto position = all_.begin(); position != all_.end();) {
    const auto deadline = deadline_of(position->second, others_wait);
    if (deadline && deadline->first <= now) {
      evicted.push_back({position->first, deadline->second});
      position = all_.erase(position);
    } else {
      ++position;
    }
  }
  return evicted;
}

auto handshake_table::next_due() const -> std::optional<time_point> {
  std::optional<time_point> next;
  const bool others_wait = contended();
  for (const auto& [which, one] : all_)
    if (const auto deadline = deadline_of(one, others_wait); deadline && (!next || deadline->first < *next))
      next = deadline->first;
  return next;
}

auto handshake_table::deadline_of(const entry& one, bool contended) const
    -> std::optional<std::pair<time_point, reason>> {
  if (one.at == stage::waiting)
    return std::pair{one.since + limits_.hello, reason::no_hello};
  if (one.at == stage::ready)
    return std::nullopt;
  if (contended && limits_.contended < limits_.handshake)
    return std::pair{one.since + limits_.contended, reason::out_of_place};
  return std::pair{one.since + limits_.handshake, reason::no_proof};
}

bool handshake_table::contended() const {
  return count(stage::ready) > 0 && count(stage::shaking) >= limits_.shaking;
}

auto handshake_table::evict(entries::const_iterator position, reason why) -> std::optional<eviction> {
  if (position == all_.end())
    return std::nullopt;
  const eviction evicted{position->first, why};
  all_.erase(position);
  return evicted;
}

auto handshake_table::oldest_waiting_of(const std::string& source) const -> entries::const_iterator {
  return std::find_if(all_.begin(), all_.end(), [&](const auto& each) {
    return each.second.at == stage::waiting && each.second.source == source;
  });
}

// The silent before those whose hello has come, others before the expected, the old before the new.
auto handshake_table::most_dispensable() const -> entries::const_iterator {
  auto found = all_.end();
  std::tuple<bool, bool> best;
  for (auto position = all_.begin(); position != all_.end(); ++position) {
    const auto& one = position->second;
    const std::tuple order{one.at == stage::ready, is_expected(one)};
    if (one.at != stage::shaking && (found == all_.end() || order < best)) {
      found = position;
      best = order;
    }
  }
  return found;
}

std::size_t handshake_table::count(stage at) const {
  return static_cast<std::size_t>(
      std::count_if(all_.begin(), all_.end(), [&](const auto& each) { return each.second.at == at; }));
}

std::size_t handshake_table::count(stage at, const std::string& source) const {
  return static_cast<std::size_t>(std::count_if(all_.begin(), all_.end(), [&](const auto& each) {
    return each.second.at == at && each.second.source == source;
  }));
}

std::string text_of(handshake_table::reason why, const handshake_limits& limits) {
  const auto seconds = [](std::chrono::nanoseconds span) {
    return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(span).count()) + " ms";
  };
  switch (why) {
  case handshake_table::reason::no_hello:
    return "it did not send a TLS hello within " + seconds(limits.hello);
  case handshake_table::reason::share:
    return "it was silent, and more than " + std::to_string(limits.share) +
           " connections from its address were";
  case handshake_table::reason::full:
    return "it made room for another one: more than " + std::to_string(limits.connections) +
           " connections had not begun a handshake";
  case handshake_table::reason::no_proof:
    return "no proof of the secret within " + seconds(limits.handshake);
  case handshake_table::reason::out_of_place:
    return "no proof of the secret within " + seconds(limits.contended) +
           ", and others waited: as many as may were in a handshake (" + std::to_string(limits.shaking) + ")";
  }
  return {};
}

} // namespace farandole
