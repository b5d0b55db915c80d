#include "collectives/transport/hierarchy.hpp"

#include <cassert>

namespace farandole {

hierarchy hierarchy::of(std::span<const std::string> identities, std::int32_t rank) {
  hierarchy made;
  std::vector<const std::string*> values;
  for (std::size_t member = 0; member < identities.size(); ++member) {
    const auto at = static_cast<std::size_t>(
        std::find_if(values.begin(), values.end(),
                     [&](const auto* entry) { return *entry == identities[member]; }) -
        values.begin());
    if (at == values.size()) {
      values.push_back(&identities[member]);
      made.hosts.emplace_back();
    }
    if (member == static_cast<std::size_t>(rank)) {
      made.host = at;
      made.position = made.hosts[at].size();
    }
    made.hosts[at].push_back(static_cast<std::int32_t>(member));
  }
  assert(!made.hosts.empty());
  made.cross_host_groups = made.hosts[0].size();
  for (const auto& host : made.hosts)
    made.cross_host_groups = std::min(made.cross_host_groups, host.size());
  return made;
}

std::size_t hierarchy::members() const {
  std::size_t count = 0;
  for (const auto& ranks : hosts)
    count += ranks.size();
  return count;
}

std::vector<std::int32_t> hierarchy::cross_host_group() const {
  assert(in_cross_host_group());
  std::vector<std::int32_t> ranks;
  for (const auto& host : hosts)
    ranks.push_back(host[position]);
  return ranks;
}

bool hierarchy::splits_by_bits() const {
  const std::size_t count = members();
  std::vector<std::size_t> host_of(count);
  for (std::size_t at = 0; at < hosts.size(); ++at)
    for (const auto rank : hosts[at])
      host_of[static_cast<std::size_t>(rank)] = at;
  // Each bit in which neighbours differ doubles the size that every host must have.
  std::size_t host_size = 1;
  for (std::size_t bit = 1; bit < count; bit *= 2) {
    const bool near = host_of[0] == host_of[bit % count];
    for (std::size_t rank = 0; rank < count; ++rank)
      if ((rank ^ bit) >= count || (host_of[rank] == host_of[rank ^ bit]) != near)
        return false;
    host_size *= near ? 2 : 1;
  }
  return std::all_of(hosts.begin(), hosts.end(),
                     [&](const auto& entry) { return entry.size() == host_size; });
}

share_plan share_plan::of(std::size_t bytes, std::size_t cross_host_groups, std::size_t most_bytes,
                          std::size_t unit) {
  assert(cross_host_groups > 0 && unit > 0 && most_bytes >= unit);
  if (bytes == 0)
    return {cross_host_groups, unit, 0};
  const auto parts_of = [](std::size_t whole, std::size_t part) { return (whole + part - 1) / part; };
  const std::size_t shares =
      parts_of(bytes, most_bytes / unit * unit * cross_host_groups) * cross_host_groups;
  share_plan made{cross_host_groups, parts_of(parts_of(bytes, shares), unit) * unit, 0};
  made.pieces = parts_of(bytes, made.share_bytes * cross_host_groups);
  return made;
}

share_plan::range share_plan::piece(std::size_t number, std::size_t bytes) const {
  const std::size_t whole = share_bytes * cross_host_groups;
  const std::size_t from = std::min(bytes, number * whole);
  return {from, std::min(whole, bytes - from)};
}

share_plan::range share_plan::share(std::size_t number, std::size_t cross_host_group,
                                    std::size_t bytes) const {
  if (cross_host_group >= cross_host_groups)
    return {bytes, 0};
  const std::size_t from = std::min(bytes, (number * cross_host_groups + cross_host_group) * share_bytes);
  return {from, std::min(share_bytes, bytes - from)};
}

} // namespace farandole
