// Starts agents by ssh, or by another remote shell that is called with a host and a command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/launch/placer.hpp"

namespace farandole {

struct ssh_options {
  std::string remote_shell; ///< words separated by blanks; empty: ssh with the options below
  std::optional<std::int32_t> port;
  std::string identity_file;
  std::string
      remote_program;      ///< path of `farandole` on the hosts; empty: own_program, or else the one on PATH
  std::string own_program; ///< path of this program
  std::vector<std::string> launcher; ///< addresses of this host, all of which agents dial
};

/// The command line for the remote login shell, which may be any shell, csh and fish among them: it contains only plain
/// words and one text in single quotes.
std::string agent_command_line(const ssh_options& options, const std::string& host, std::uint16_t port);

placer ssh_placer(const ssh_options& options);

} // namespace farandole
