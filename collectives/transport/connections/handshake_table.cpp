#include "collectives/transport/connections/handshake_table.hpp"

#include <algorithm>
#include <tuple>

namespace farandole {

handshake_limits handshake_limits::within(std::size_t descriptors) const {
  auto limits = *this;
  limits.connections = std::min(connections, std::max<std::size_t>(descriptors / 8, 16));
  limits.share = std::min(share, limits.connections / 2);
  return limits;
}

auto handshake_table::accept(connection which, const std::string& source, time_point current_time)
    -> std::optional<eviction> {
  std::optional<eviction> evicted;
  if (count(stage::waiting, source) >= limits_.share)
    evicted = evict(oldest_waiting_of(source), reason::share);
  else if (all_.size() - count(stage::shaking) >= limits_.connections)
    evicted = evict(most_dispensable(), reason::full);
  all_[which] = {stage::waiting, source, current_time};
  return evicted;
}

void handshake_table::ready(connection which) {
  if (auto found = all_.find(which); found != all_.end() && found->second.at == stage::waiting)
    found->second.at = stage::ready;
}

// Order: expected sources first; then the source with the fewest handshakes, so that one source cannot take
// all places; then the oldest connection.
auto handshake_table::begin_next(time_point current_time) -> std::optional<connection> {
  if (count(stage::shaking) >= limits_.shaking)
    return std::nullopt;
  auto next = all_.end();
  std::tuple<bool, std::size_t> best;
  for (auto position = all_.begin(); position != all_.end(); ++position) {
    const auto& entry = position->second;
    if (entry.at != stage::ready)
      continue;
    const std::tuple order{!is_expected(entry), count(stage::shaking, entry.source)};
    if (next == all_.end() || order < best) {
      next = position;
      best = order;
    }
  }
  if (next == all_.end())
    return std::nullopt;
  next->second.at = stage::shaking;
  next->second.since = current_time;
  return next->first;
}

auto handshake_table::overdue(time_point current_time) -> std::vector<eviction> {
  std::vector<eviction> evicted;
  const bool others_wait = contended();
  for (auto position = all_.begin(); position != all_.end();) {
    const auto deadline = deadline_of(position->second, others_wait);
    if (deadline && deadline->first <= current_time) {
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
  for (const auto& [which, entry] : all_)
    if (const auto deadline = deadline_of(entry, others_wait); deadline && (!next || deadline->first < *next))
      next = deadline->first;
  return next;
}

auto handshake_table::deadline_of(const entry& entry, bool contended) const
    -> std::optional<std::pair<time_point, reason>> {
  if (entry.at == stage::waiting)
    return std::pair{entry.since + limits_.hello, reason::no_client_hello};
  if (entry.at == stage::ready)
    return std::nullopt;
  if (contended && limits_.contended < limits_.handshake)
    return std::pair{entry.since + limits_.contended, reason::slow_and_contended};
  return std::pair{entry.since + limits_.handshake, reason::no_proof};
}

bool handshake_table::contended() const {
  return count(stage::ready) > 0 && count(stage::shaking) >= limits_.shaking;
}

auto handshake_table::evict(entries::const_iterator position, reason reason) -> std::optional<eviction> {
  if (position == all_.end())
    return std::nullopt;
  const eviction evicted{position->first, reason};
  all_.erase(position);
  return evicted;
}

auto handshake_table::oldest_waiting_of(const std::string& source) const -> entries::const_iterator {
  return std::find_if(all_.begin(), all_.end(), [&](const auto& entry) {
    return entry.second.at == stage::waiting && entry.second.source == source;
  });
}

// Order of eviction: connections without a complete hello before ready ones, other sources before expected
// ones, older connections before newer ones.
auto handshake_table::most_dispensable() const -> entries::const_iterator {
  auto found = all_.end();
  std::tuple<bool, bool> best;
  for (auto position = all_.begin(); position != all_.end(); ++position) {
    const auto& entry = position->second;
    const std::tuple order{entry.at == stage::ready, is_expected(entry)};
    if (entry.at != stage::shaking && (found == all_.end() || order < best)) {
      found = position;
      best = order;
    }
  }
  return found;
}

std::size_t handshake_table::count(stage at) const {
  return static_cast<std::size_t>(
      std::count_if(all_.begin(), all_.end(), [&](const auto& entry) { return entry.second.at == at; }));
}

std::size_t handshake_table::count(stage at, const std::string& source) const {
  return static_cast<std::size_t>(std::count_if(all_.begin(), all_.end(), [&](const auto& entry) {
    return entry.second.at == at && entry.second.source == source;
  }));
}

std::string text_of(handshake_table::reason reason, const handshake_limits& limits) {
  const auto seconds = [](std::chrono::nanoseconds span) {
    return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(span).count()) + " ms";
  };
  switch (reason) {
  case handshake_table::reason::no_client_hello:
    return "it did not send a TLS hello within " + seconds(limits.hello);
  case handshake_table::reason::share:
    return "it was silent, and more than " + std::to_string(limits.share) +
           " connections from its address were";
  case handshake_table::reason::full:
    return "it made room for another one: more than " + std::to_string(limits.connections) +
           " connections had not begun a handshake";
  case handshake_table::reason::no_proof:
    return "no proof of the secret within " + seconds(limits.handshake);
  case handshake_table::reason::slow_and_contended:
    return "no proof of the secret within " + seconds(limits.contended) +
           ", and others waited: as many as may were in a handshake (" + std::to_string(limits.shaking) + ")";
  }
  return {};
}

} // namespace farandole
