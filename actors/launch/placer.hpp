// A placer gets the agents of hosts started, by commands such as ssh or srun. It has no protocol of its own: the agents
// dial the launcher, and from then on the links between them decide.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "actors/launch/forwarded_ports.hpp"

namespace farandole {

struct placer {
  std::string name;   ///< "ssh", for messages
  std::string remedy; ///< for a command that cannot be run: "; check FARANDOLE_RSH"
  std::string
      programs; ///< the programs of which the command starts the first that the host has, for messages
  /// Whether one command starts the agents of any number of hosts. Otherwise each host has a command of its own.
  bool takes_all_hosts = false;
  /// The variable in which the command gets the job's secret. Empty: it gets the secret and a newline on its standard
  /// input, which stays open until the agents are to end.
  std::string secret_variable;
  std::vector<std::string> environment; ///< of the command, as "NAME=value"; empty: that of the launcher
  /// Returns the command that starts the agents of these hosts, which dial the launcher at `port`. The command runs
  /// without a terminal. Empty: users start the agents.
  std::function<std::vector<std::string>(std::span<const std::string> hosts, std::uint16_t port)> command;
  /// The same for one host from which no address of the launcher can be reached: the command also forwards a port of that
  /// host to each target, prints which ones as forwarded_ports reads them, and gets them as a line of its standard input
  /// after the secret. Empty: nothing can be forwarded.
  std::function<std::vector<std::string>(const std::string& host, std::span<const forward_target> targets)>
      forwarding_command = {};
  /// Whether a command failed because its host does not exist yet, according to the last lines that it printed: the host
  /// may appear, as the pods of a cluster do. Empty: the lines do not tell.
  std::function<bool(const std::deque<std::string>& printed)> host_is_missing = {};

  explicit operator bool() const { return static_cast<bool>(command); }
};

} // namespace farandole
