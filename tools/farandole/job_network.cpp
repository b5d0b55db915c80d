#include "tools/farandole/job_network.hpp"

#include <algorithm>
#include <set>

#include "actors/rendezvous/this_host.hpp"
#include "collectives/transport/connections/interface_addresses.hpp"
#include "messages/values/printable.hpp"

namespace farandole {

namespace {

constexpr const char* loopback_ip = "127.0.0.1";
expected<host_networks> networks_of_this_host() {
  const auto listed = list_interface_addresses();
  if (!listed)
    return listed.error();
  host_networks own;
  own.host = job_network::own_name;
  for (const auto& entry : *listed)
    if (entry.is_up && accepts_listeners(entry.address))
      own.addresses.push_back({entry.interface, entry.address});
  return own;
}

error wrong(std::string text) {
  return {error_kind::invalid_argument, std::move(text)};
}

/// Whether the agent reaches the launcher through ssh, at a port of its own host.
bool is_forwarded(const agent_hello& agent) {
  return agent.reached == loopback_ip;
}

/// Without wanted networks only the preferred address is sure to reach the other hosts.
std::vector<std::string> interfaces_for_workers(const usable_networks& networks, bool are_wanted) {
  auto names = networks.interfaces();
  if (!are_wanted && names.size() > 1)
    names.resize(1);
  return names;
}

std::string first_address_of(const usable_networks& networks) {
  return networks.addresses.empty() ? std::string() : networks.addresses.front().address;
}

} // namespace

expected<job_network> job_network::of_this_host(std::span<const std::string> wanted) {
  return at_address(loopback_ip, wanted);
}

expected<job_network> job_network::at_address(const std::string& ip, std::span<const std::string> wanted) {
  job_network made;
  auto own = networks_of_this_host();
  if (!own)
    return own.error();
  made.is_local_ = true;
  made.listening_ = {ip};
  made.here_.rendezvous_address = ip;
  auto& names = made.here_.interfaces;
  const auto add = [&](const std::string& name) {
    if (std::ranges::find(names, name) == names.end())
      names.push_back(name);
  };
  for (const auto& text : wanted) {
    const auto network = wanted_network::parse(text);
    if (!network)
      return network.error();
    const auto count = names.size();
    bool exists = false;
    for (const auto& address : own->addresses)
      if (network->contains(address)) {
        exists = true;
        add(address.interface);
      }
    if (!exists && names.size() == count)
      return wrong("there is no network interface '" + printable_name(text) +
                   "' that is up and has an address (--network-interfaces)");
  }
  if (!wanted.empty())
    return made;
  for (const auto& address : own->addresses)
    if (address.address == ip)
      add(address.interface);
  if (names.empty() && ip != loopback_ip)
    return wrong("no network interface of this host that is up has the address " + printable_name(ip) +
                 "; give an address of this host (--caller-address)");
  if (names.empty())
    return wrong(
        "no network interface carries 127.0.0.1; bring lo up, or name one with --network-interfaces");
  return made;
}

expected<job_network> job_network::of_hosts(std::span<const std::string> wanted, bool has_workers,
                                            const std::string& machine) {
  job_network made;
  auto networks = parse_wanted_networks(wanted);
  if (!networks)
    return networks.error();
  made.wanted_ = std::move(*networks);
  auto own = networks_of_this_host();
  if (!own)
    return own.error();
  made.own_ = std::move(*own);
  made.own_.machine = machine;
  auto chosen = choose_networks(std::span(&made.own_, 1), made.wanted_);
  // A launcher that runs beside the job, on a login node for example, need not be in the network of the workers.
  if (chosen.at(own_name).addresses.empty() && !has_workers)
    chosen = choose_networks(std::span(&made.own_, 1), {});
  if (auto problem = missing_networks(chosen, made.wanted_))
    return problem;
  // The other hosts are not known yet, so the launcher listens on addresses of both families.
  made.family_ = common_family(chosen);
  for (const auto& address : chosen.at(own_name).addresses)
    made.listening_.push_back(address.address);
  std::ranges::stable_partition(made.listening_,
                                [&](const auto& ip) { return family_of(ip) == made.family_; });
  use_family(chosen, made.family_);
  made.here_ = {
      made.listening_.front(), interfaces_for_workers(chosen.at(own_name), !made.wanted_.empty()), {}};
  return made;
}

host_networks job_network::networks_of(const agent_hello& agent) const {
  host_networks networks{agent.host, agent.addresses, agent.machine, agent.own};
  if (const auto found = attempts_.find(agent.machine); found != attempts_.end())
    networks.attempts = found->second;
  return networks;
}

std::vector<reach_check::tested_host> job_network::hosts_to_test(const agent_facts& agents,
                                                                 bool has_workers) const {
  if (is_local_)
    return {};
  std::vector<host_networks> hosts{own_};
  for (const auto& [name, agent] : agents)
    hosts.push_back(networks_of(agent));
  auto chosen = choose_networks(hosts, wanted_);
  if (!has_workers)
    hosts.erase(hosts.begin());
  std::vector<reach_check::tested_host> tested;
  std::set<std::string> machines; // two names of one machine have the same addresses
  for (const auto& host : hosts)
    if (machines.insert(host.machine).second) {
      tested.push_back({host.host, {}});
      for (const auto& address : chosen.at(host.host).addresses)
        if (tested.back().candidates.size() < reach_check::most_candidates)
          tested.back().candidates.push_back(address.address);
    }
  use_family(chosen, family_);
  const bool has_choice = std::ranges::any_of(
      tested, [&](const auto& host) { return chosen.at(host.host).addresses.size() > 1; });
  const bool shares_network = std::ranges::all_of(agents, [&](const auto& entry) {
    return !is_forwarded(entry.second) && entry.second.reached == agents.begin()->second.reached;
  });
  if (tested.size() < 2 || (!has_choice && shares_network))
    return {};
  return tested;
}

error job_network::take(const reach_results& results, const agent_facts& agents) {
  for (const auto& [host, attempts] : results)
    if (host == own_name)
      attempts_[own_.machine] = own_.attempts = attempts;
    else
      attempts_[agents.at(host).machine] = attempts;
  return take(agents);
}

error job_network::take(const agent_facts& agents) {
  if (is_local_)
    return {};
  std::vector<host_networks> hosts{own_};
  for (const auto& [name, agent] : agents)
    hosts.push_back(networks_of(agent));
  auto chosen = choose_networks(hosts, wanted_);
  const bool is_tested = !own_.attempts.empty();           // it has workers, which others must reach
  if (!is_tested && chosen.at(own_name).addresses.empty()) // checked by of_hosts(), with fewer conditions
    chosen.erase(own_name);
  family_ = common_family(chosen);
  use_family(chosen, family_);
  if (!is_tested)
    chosen.erase(own_name);
  if (auto problem = missing_networks(chosen, wanted_))
    return problem;
  // Workers of this host dial the rendezvous at the address that most agents reached, so that the address which they
  // tell the others is one of that network.
  std::map<std::string, std::size_t> reached;
  for (const auto& [name, agent] : agents)
    if (!is_forwarded(agent) && family_of(agent.reached) == family_)
      ++reached[agent.reached];
  const auto commonest =
      std::ranges::max_element(reached, {}, [](const auto& entry) { return entry.second; });
  const auto first =
      std::ranges::find_if(listening_, [this](const auto& ip) { return family_of(ip) == family_; });
  if (commonest == reached.end() && first == listening_.end())
    return {};
  here_.rendezvous_address = commonest == reached.end() ? *first : commonest->first;
  own_.preferred = here_.rendezvous_address;
  auto own = choose_networks(std::span(&own_, 1), wanted_);
  use_family(own, family_);
  here_.interfaces = interfaces_for_workers(own.at(own_name), !wanted_.empty());
  here_.own_address = is_tested ? first_address_of(own.at(own_name)) : std::string();
  return {};
}

expected<worker_network> job_network::on(const agent_hello& agent) const {
  if (is_local_)
    return here_;
  const host_networks hosts[] = {own_, networks_of(agent)};
  auto chosen = choose_networks(hosts, wanted_);
  use_family(chosen, family_);
  chosen.erase(own_name);
  if (auto problem = missing_networks(chosen, wanted_))
    return problem;
  // An agent that reaches the launcher through ssh tells its workers another address of the rendezvous.
  const bool reaches_directly = !is_forwarded(agent) && family_of(agent.reached) == family_;
  // A worker may run in a network namespace of its own, so it finds its address itself where its connection tells it.
  const bool is_certain = !is_forwarded(agent) && !attempts_.contains(agent.machine);
  return worker_network{reaches_directly ? agent.reached : here_.rendezvous_address,
                        interfaces_for_workers(chosen.at(agent.host), !wanted_.empty()),
                        is_certain ? std::string() : first_address_of(chosen.at(agent.host))};
}

} // namespace farandole
