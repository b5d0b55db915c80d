#include "tools/farandole/explain/host_clocks.hpp"

#include <algorithm>
#include <cmath>

#include "tools/farandole/explain/rank_activity.hpp"

namespace farandole {

namespace {

using std::chrono::nanoseconds;

/// The bounds that the ranks of one host give for a transfer: all of them have begun at `last_begin`, and the first has
/// ended at `first_end`.
struct host_transfer {
  nanoseconds last_begin = nanoseconds::min();
  nanoseconds first_end = nanoseconds::max();

  void add(const observed_transfer& transfer) {
    last_begin = std::max(last_begin, transfer.begin);
    first_end = std::min(first_end, transfer.end);
  }
};

struct interval {
  nanoseconds low = nanoseconds::min();
  nanoseconds high = nanoseconds::max();
};

clock_offset offset_in(const interval& bounds) {
  clock_offset result;
  if (bounds.low == nanoseconds::min())
    return result;
  result.offset = bounds.low + (bounds.high - bounds.low) / 2;
  result.error = (std::chrono::abs(bounds.high - bounds.low) + nanoseconds{1}) / 2;
  if (bounds.low > bounds.high)
    result.contradiction = bounds.low - bounds.high;
  return result;
}

/// A damaged record may state any difference. Sums of these do not overflow.
bool is_plausible(const recorded_clock& clock) {
  constexpr std::chrono::hours most{24 * 365};
  return std::chrono::abs(clock.offset) < most && clock.bound < most &&
         std::chrono::abs(clock.measured) < most * 10 && std::abs(clock.drift_parts_per_billion) < 1'000'000;
}

/// A rate as a double loses less than a microsecond in a year.
nanoseconds drifted(double drift, nanoseconds time) {
  return nanoseconds(std::llround(drift * static_cast<double>(time.count())));
}

} // namespace

std::vector<clock_offset> offsets_by_transfers(std::vector<observed_transfer> transfers, std::size_t hosts) {
  std::ranges::sort(transfers, [](const observed_transfer& a, const observed_transfer& b) {
    return a.key != b.key ? a.key < b.key : a.host < b.host;
  });
  std::vector<interval> bounds(hosts);
  for (auto next = transfers.begin(); next != transfers.end();) {
    const auto key = next->key;
    const auto take_host = [&] {
      host_transfer taken;
      for (const auto host = next->host; next != transfers.end() && next->key == key && next->host == host;
           ++next)
        taken.add(*next);
      return taken;
    };
    const bool has_reference = next->host == 0;
    const auto reference = has_reference ? take_host() : host_transfer{};
    while (next != transfers.end() && next->key == key) {
      auto& bounds_of_host = bounds[next->host];
      const auto other = take_host();
      if (!has_reference)
        continue;
      bounds_of_host.low = std::max(bounds_of_host.low, other.last_begin - reference.first_end);
      bounds_of_host.high = std::min(bounds_of_host.high, other.first_end - reference.last_begin);
    }
  }
  std::vector<clock_offset> offsets;
  for (const auto& bounds_of_host : bounds)
    offsets.push_back(offset_in(bounds_of_host));
  if (hosts > 0)
    offsets.front().error = nanoseconds{0};
  return offsets;
}

nanoseconds host_clocks::steady_offset::at(nanoseconds time) const {
  return offset + drifted(drift, time - measured);
}

host_clocks::host_clocks(std::span<const event_record* const> records, const tick_reading& reading)
    : reading_(reading) {
  std::vector<const event_record*> members;
  for (const auto* record : records)
    if (record->member.rank >= 0)
      members.push_back(record);
  std::ranges::stable_sort(members, {}, [](const event_record* record) { return record->member.rank; });
  if (members.empty())
    return;
  reference_ = members.front()->member.host;
  find_hosts(members, reading);
  if (hosts_.size() > 1) {
    follow_measurements();
    place_measured();
    compare_transfers(members);
  }
  auto& reference = offsets_[reference_];
  reference = {};
  reference.error = nanoseconds{0};
  reference.measured = true;
}

void host_clocks::find_hosts(std::span<const event_record* const> members, const tick_reading& reading) {
  std::map<std::int32_t, std::string> host_of_rank;
  for (const auto* record : members) {
    host_of_rank[record->member.rank] = record->member.host;
    hosts_.try_emplace(record->member.host, host{record, {}, {}, {}, farandole::scale_of(*record, reading)});
    offsets_.try_emplace(record->member.host);
  }
  for (const auto* record : members) {
    auto& own = hosts_.at(record->member.host);
    if (!record->clock || !is_plausible(*record->clock) ||
        (own.clock && own.clock->bound <= record->clock->bound))
      continue;
    const auto above = host_of_rank.find(record->clock->peer);
    if (above == host_of_rank.end() || above->second == record->member.host)
      continue;
    own.clock = record->clock;
    own.above = above->second;
  }
}

/// Follows the chain of hosts from each one to the reference host.
void host_clocks::follow_measurements() {
  hosts_.at(reference_).to_reference = steady_offset{};
  for (auto& [name, from] : hosts_)
    if (name != reference_)
      from.to_reference = steady_offset_of(from);
}

// Records of different generations may name each other as the member above, so the chain is not longer than the number of
// hosts.
std::optional<host_clocks::steady_offset> host_clocks::steady_offset_of(const host& from) const {
  if (!from.clock)
    return std::nullopt;
  steady_offset sum;
  sum.measured = from.clock->measured;
  auto time = sum.measured; // the same moment by each of the clocks
  const auto* next = &from;
  for (std::size_t length = 0; next != &hosts_.at(reference_); ++length) {
    if (!next->clock || length > hosts_.size())
      return std::nullopt;
    const auto drift = static_cast<double>(next->clock->drift_parts_per_billion) * 1e-9;
    const auto offset = next->clock->offset + drifted(drift, time - next->clock->measured);
    sum.offset += offset;
    sum.bound += next->clock->bound;
    sum.drift += drift;
    time += offset;
    next = &hosts_.at(next->above);
  }
  return sum;
}

void host_clocks::place_measured() {
  const auto& reference = hosts_.at(reference_).first->origin;
  for (auto& [name, from] : hosts_) {
    if (!from.to_reference || name == reference_)
      continue;
    const auto& origin = from.first->origin;
    const auto steady = origin.steady + from.to_reference->at(origin.steady); // of the reference host
    const auto system = reference.system + (steady - reference.steady);
    from.scale = tick_scale({origin.ticks, steady, system},
                            tick_length_of(*from.first, reading_) * (1 + from.to_reference->drift));
    offsets_[name] = {origin.system - system, from.to_reference->bound, nanoseconds{0}, true};
  }
}

void host_clocks::compare_transfers(std::span<const event_record* const> members) {
  std::map<std::string, std::size_t> numbers{{reference_, 0}};
  for (const auto& [name, placed] : hosts_)
    numbers.try_emplace(name, numbers.size());
  std::vector<observed_transfer> transfers;
  for (const auto* record : members) {
    const auto& scale = hosts_.at(record->member.host).scale;
    for (const auto& found : transfers_in(*record))
      transfers.push_back(
          {numbers.at(record->member.host), found.key, scale.system(found.begin), scale.system(found.end)});
  }
  const auto found = offsets_by_transfers(std::move(transfers), hosts_.size());
  for (auto& [name, placed] : hosts_) {
    const auto& by_transfers = found[numbers.at(name)];
    auto& offset = offsets_[name];
    if (!placed.to_reference) {
      offset = by_transfers;
      const auto& origin = placed.first->origin;
      placed.scale = tick_scale({origin.ticks, origin.steady, origin.system - offset.offset},
                                tick_length_of(*placed.first, reading_));
    } else if (by_transfers.error) {
      // The scale contains the measured offset already, so transfers must allow an offset of 0 within the bound.
      const auto beyond =
          std::chrono::abs(by_transfers.offset) - *by_transfers.error - offset.error.value_or(nanoseconds{0});
      offset.contradiction = std::max(by_transfers.contradiction, std::max(beyond, nanoseconds{0}));
    }
  }
}

nanoseconds host_clocks::worst_error() const {
  nanoseconds worst{0};
  for (const auto& [host, clock] : offsets_)
    worst = std::max(worst, clock.error.value_or(nanoseconds{0}));
  return worst;
}

bool host_clocks::comparable(const std::string& host, const std::string& other) const {
  const auto is_measured = [this](const std::string& name) {
    const auto found = offsets_.find(name);
    return found != offsets_.end() && found->second.measured;
  };
  return host == other || (is_measured(host) && is_measured(other));
}

std::int32_t host_clocks::rank_above(const std::string& host) const {
  const auto found = hosts_.find(host);
  return found != hosts_.end() && found->second.clock ? found->second.clock->peer : -1;
}

tick_scale host_clocks::scale_of(const event_record& record) const {
  const auto found = hosts_.find(record.member.host);
  return found == hosts_.end() ? farandole::scale_of(record, reading_) : found->second.scale;
}

} // namespace farandole
