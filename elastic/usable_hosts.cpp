#include "elastic/usable_hosts.hpp"

#include <algorithm>

namespace farandole {

void usable_hosts::found(const discovered_hosts& result) {
  found_ = result.hosts;
  remote_ = result.remote;
  // The agents of other hosts leave.
  for (auto* hosts : {&failed_, &left_})
    std::erase_if(*hosts, [this](const auto& host) { return !remote_.contains(host); });
  if (!users_start_agents())
    std::erase_if(connected_, [this](const auto& entry) { return !remote_.contains(entry.first); });
}

bool usable_hosts::connected(const std::string& host, std::int32_t slots) {
  if (!users_start_agents() && !remote_.contains(host))
    return false; // discovery has not named it any more when this event was on its way
  connected_[host] = slots;
  left_.erase(host);
  return failed_.erase(host) > 0;
}

bool usable_hosts::failed(const std::string& host) {
  connected_.erase(host);
  return failed_.insert(host).second;
}

void usable_hosts::leaves(const std::string& host) {
  connected_.erase(host);
  left_.insert(host);
}

std::optional<std::vector<std::string>> usable_hosts::wanted_agents() {
  std::vector<std::string> names(remote_.begin(), remote_.end());
  if (wanted_ == names || (!wanted_ && names.empty()))
    return {};
  wanted_ = names;
  return names;
}

std::optional<std::vector<host_slots>> usable_hosts::usable() {
  settled_ =
      settled_ || (connected_.size() >= first_agents_ &&
                   std::all_of(remote_.begin(), remote_.end(), [this](const auto& host) {
                     return connected_.contains(host) || failed_.contains(host) || left_.contains(host);
                   }));
  if (!settled_)
    return {};
  std::vector<host_slots> hosts;
  for (const auto& host : found_)
    if (!remote_.contains(host.name) || connected_.contains(host.name))
      hosts.push_back(host);
  if (users_start_agents())
    for (const auto& [name, slots] : connected_)
      hosts.push_back({name, slots});
  return hosts;
}

} // namespace farandole
