// The network of a job as the launcher sees it: where the launcher listens, and which interfaces, which address and which
// address of the rendezvous the workers of each host use. elastic/network_choice.hpp decides.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "actors/launch/launcher.hpp"
#include "elastic/network_choice.hpp"
#include "elastic/reach_check.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// What a worker needs to know.
struct worker_network {
  std::string rendezvous_address;
  std::vector<std::string> interfaces; ///< not empty
  std::string own_address = {}; ///< that members of other hosts reach; empty: workers find it themselves
};

class job_network {
public:
  /// A job whose hosts are all this one. An error if a wanted interface does not exist.
  static expected<job_network> of_this_host(std::span<const std::string> wanted);
  /// A job whose workers, wherever they are, reach this host at the address `ip`.
  static expected<job_network> at_address(const std::string& ip, std::span<const std::string> wanted);
  /// A job that has, or may get, workers on other hosts. If this host has no address for them, an error with the reasons.
  /// `has_workers`: some workers run on this host, so it must have an address in the wanted networks.
  /// `machine` is the identity of this host.
  static expected<job_network> of_hosts(std::span<const std::string> wanted, bool has_workers,
                                        const std::string& machine);

  /// The addresses at which the launcher listens.
  const std::vector<std::string>& listening() const { return listening_; }
  /// Takes the agents of the job's hosts into account. An error if a host has no address for the others.
  error take(const agent_facts& agents);
  /// The hosts that are to test which of their addresses the others reach, because the connections to the launcher do not
  /// tell it: some of them have several usable addresses, or have not reached the launcher at the same address as the
  /// others. None if all is certain. `agents` are those of hosts with workers; this host is among the hosts, as
  /// `own_name`, if it has workers.
  std::vector<reach_check::tested_host> hosts_to_test(const agent_facts& agents, bool has_workers) const;
  static constexpr const char* own_name = "this host";
  /// Takes the results into account, and the agents once more. An error if no address of a host was reached.
  error take(const reach_results& results, const agent_facts& agents);
  /// For workers on this host.
  const worker_network& here() const { return here_; }
  /// For workers that this agent starts.
  expected<worker_network> on(const agent_hello& agent) const;

private:
  host_networks networks_of(const agent_hello& agent) const;

  bool is_local_ = false; ///< all agents are on this host
  host_networks own_;
  std::vector<wanted_network> wanted_;
  std::vector<std::string> listening_;
  ip_family family_ = ip_family::v4; ///< of the addresses that the members use
  worker_network here_;
  reach_results attempts_; ///< by identity of the machine
};

} // namespace farandole
