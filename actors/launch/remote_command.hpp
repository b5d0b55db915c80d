// Runs one command on a host of a running job, by way of the job's launcher, as ssh does on any host: standard streams,
// exit code and signals are those of the command.
#pragma once

#include <cstdint>
#include <string>

#include "messages/settings/settings.hpp"

namespace farandole {

struct remote_command_options {
  std::string ip; ///< of the launcher's listener for agents
  std::uint16_t port = 0;
  std::string secret;
  std::string host;      ///< as the launcher names it
  std::string command;   ///< for a shell
  std::string directory; ///< the command's working directory; empty: that of the agent
  settings values = settings::built_in();
};

/// The exit code if the command could not be run or was lost.
inline constexpr int command_lost_code = 255;

/// Returns the exit code of the command, or command_lost_code after a message on standard error. SIGINT, SIGTERM and
/// SIGHUP go to the command. The process must have only one thread when it calls this.
int run_remote_command(const remote_command_options& options);

} // namespace farandole
