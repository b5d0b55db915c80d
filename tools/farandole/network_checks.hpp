// What a launch tells about the networks of its hosts, and the test of their connections before the workers start.
#pragma once

#include <optional>
#include <vector>

#include "actors/launch/launcher.hpp"
#include "messages/values/error.hpp"
#include "tools/farandole/hosts.hpp"
#include "tools/farandole/job_network.hpp"

namespace farandole {

/// Prints which hosts have no address for the others. Returns the exit code of the launcher.
int tell_missing_networks(const error& problem);

/// Lets the hosts with workers test which of their addresses the others reach, where that is uncertain, and takes the
/// results into `network`. If a host cannot be reached, prints why and returns the exit code of the launcher.
std::optional<int> test_networks(launcher& by, job_network& network, const std::vector<placement>& places,
                                 const agent_facts& agents, bool verbose);

/// For --verbose: the interfaces that the workers of all hosts use under the same name, if there are any.
void tell_interfaces(const job_network& network, const std::vector<host_slots>& hosts,
                     const agent_facts& agents);

} // namespace farandole
