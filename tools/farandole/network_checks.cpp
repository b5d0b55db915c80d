#include "tools/farandole/network_checks.hpp"

#include <algorithm>
#include <iostream>

#include "messages/values/printable.hpp"

namespace farandole {

int tell_missing_networks(const error& problem) {
  std::cerr << "farandole: " << printable(problem.text) << std::endl;
  return 1;
}

std::optional<int> test_networks(launcher& by, job_network& network, const std::vector<placement>& places,
                                 const agent_facts& agents, bool verbose) {
  agent_facts with_workers;
  bool has_workers_here = false;
  for (const auto& place : places)
    if (const auto agent = agents.find(place.host); agent != agents.end())
      with_workers.insert(*agent);
    else
      has_workers_here = true;
  const auto hosts = network.hosts_to_test(with_workers, has_workers_here);
  if (hosts.empty())
    return {};
  if (verbose)
    std::cout << "Testing interfaces on all the hosts.\n"
              << "Waiting for hosts to perform host-to-host interface checking." << std::endl;
  int exit_code = 0;
  const auto results = by.test_hosts(hosts, has_workers_here ? job_network::own_name : "", exit_code);
  if (!results)
    return exit_code;
  if (const auto problem = network.take(*results, agents))
    return tell_missing_networks(problem);
  if (verbose)
    std::cout << "Host-to-host interface checking successful." << std::endl;
  return {};
}

void tell_interfaces(const job_network& network, const std::vector<host_slots>& hosts,
                     const agent_facts& agents) {
  std::optional<std::vector<std::string>> common;
  for (const auto& host : hosts) {
    const auto agent = agents.find(host.name);
    const auto place =
        agent == agents.end() ? expected<worker_network>(network.here()) : network.on(agent->second);
    if (!place)
      return; // the start of the worker reports it
    if (!common)
      common = place->interfaces;
    std::erase_if(*common, [&](const std::string& name) {
      return std::ranges::find(place->interfaces, name) == place->interfaces.end();
    });
  }
  std::cout << "Interfaces on all the hosts were successfully checked." << std::endl;
  if (!common || common->empty())
    return;
  std::cout << "Common interface found:";
  for (const auto& name : *common)
    std::cout << " " << name;
  std::cout << std::endl;
}

} // namespace farandole
