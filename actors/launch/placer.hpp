// A placer gets the agent of a host started, by a command such as ssh. It has no protocol of its own: the agent dials
// the launcher, and from then on the link between them decides.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace farandole {

struct placer {
  std::string name;    ///< "ssh", for messages
  std::string remedy;  ///< for a command that cannot be run: "; check FARANDOLE_RSH"
  std::string program; ///< the program that the command starts on the host, for messages
  /// Returns the command that starts the agent of this host, which dials the launcher at `port`. The command runs
  /// without a terminal. It receives the job's secret and a newline on its standard input, which stays open until the
  /// agent is to end. Empty: users start the agents.
  std::function<std::vector<std::string>(const std::string& host, std::uint16_t port)> command;

  explicit operator bool() const { return static_cast<bool>(command); }
};

} // namespace farandole
