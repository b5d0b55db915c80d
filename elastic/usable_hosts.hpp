// The hosts on which workers of an elastic job can be started: those that discovery has found and that are either this
// machine or have a connected agent. Pure decisions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "elastic/discovery.hpp"

namespace farandole {

class usable_hosts {
public:
  /// With `first_agents`, users start the agents, and the first workers wait for this number of them.
  explicit usable_hosts(std::size_t first_agents = 0) : first_agents_(first_agents) {}

  /// Discovery has a result, which may be unchanged.
  void found(const discovered_hosts& result);
  /// The agent of this host is connected. If users start the agents, the host is added with these slots. Returns
  /// whether the host had failed before.
  bool connected(const std::string& host, std::int32_t slots);
  /// The agent of this host could not be started, or was lost. Returns whether this is the first failure since the host
  /// was found or connected.
  bool failed(const std::string& host);
  /// The agent of this host was told to end.
  void leaves(const std::string& host);

  /// The names of the hosts that need an agent; empty if they are the same as at the last call.
  std::optional<std::vector<std::string>> wanted_agents();
  /// The usable hosts, in the order of discovery. Empty at first, until the agent of every host has connected, failed or
  /// left, so that the first workers are spread over all hosts.
  std::optional<std::vector<host_slots>> usable();

private:
  bool users_start_agents() const { return first_agents_ > 0; }

  std::size_t first_agents_;
  std::vector<host_slots> found_;
  std::set<std::string> remote_;
  std::map<std::string, std::int32_t> connected_; ///< with the slots that the agent has reported
  std::set<std::string> failed_;                  ///< since they were found or connected
  std::set<std::string> left_;                    ///< since they were found or connected
  std::optional<std::vector<std::string>> wanted_;
  bool settled_ = false;
};

} // namespace farandole
