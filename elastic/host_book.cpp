#include "elastic/host_book.hpp"

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

auto host_book::update(const std::vector<host_slots>& found) -> change {
  change what;
  std::vector<host_slots> next;
  for (const auto& known : hosts_) {
    const auto slots = slots_in(found, known.name);
    if (slots > 0)
      next.push_back({known.name, slots});
    if (slots < known.slots)
      what.removed.push_back({known.name, known.slots - slots});
    else if (slots > known.slots)
      what.added.push_back({known.name, slots - known.slots});
  }
  for (const auto& host : found) {
    if (host.slots < 1 || slots(host.name) > 0)
      continue;
    assert(slots_in(next, host.name) == 0);
    next.push_back(host);
    what.added.push_back(host);
  }
  hosts_ = std::move(next);
  return what;
}

std::int32_t host_book::slots(const std::string& host) const {
  return slots_in(hosts_, host);
}

std::vector<host_slots> host_book::usable(time_point now) const {
  std::vector<host_slots> result;
  for (const auto& host : hosts_)
    if (!blacklist_.holds(host.name, now))
      result.push_back(host);
  return result;
}

} // namespace farandole
