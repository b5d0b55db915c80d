#include "elastic/host_pool.hpp"

#include <cassert>

namespace farandole {

namespace {

std::int32_t slots_in(const std::vector<host_slots>& hosts, const std::string& name) {
  for (const auto& host : hosts)
    if (host.name == name)
      return host.slots;
  return 0;
}

} // namespace

auto host_pool::update(const std::vector<host_slots>& found) -> change {
  change change;
  std::vector<host_slots> next;
  for (const auto& entry : hosts_) {
    const auto slots = slots_in(found, entry.name);
    if (slots > 0)
      next.push_back({entry.name, slots});
    if (slots < entry.slots)
      change.removed.push_back({entry.name, entry.slots - slots});
    else if (slots > entry.slots)
      change.added.push_back({entry.name, slots - entry.slots});
  }
  for (const auto& host : found) {
    if (host.slots < 1 || slots(host.name) > 0)
      continue;
    assert(slots_in(next, host.name) == 0);
    next.push_back(host);
    change.added.push_back(host);
  }
  hosts_ = std::move(next);
  return change;
}

std::int32_t host_pool::slots(const std::string& host) const {
  return slots_in(hosts_, host);
}

std::vector<host_slots> host_pool::usable(time_point current_time) const {
  std::vector<host_slots> result;
  for (const auto& host : hosts_)
    if (!blacklist_.holds(host.name, current_time))
      result.push_back(host);
  return result;
}

} // namespace farandole
