// Starts agents by ssh, or by another remote shell that is called with a host and a command line: the blaunch of LSF, for
// example.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "actors/launch/placer.hpp"
#include "tools/farandole/placers/agent_words.hpp"

namespace farandole {

struct ssh_options {
  std::vector<std::string> remote_shell; ///< its words; empty: ssh
  std::string origin;                    ///< of the remote shell, for messages: "FARANDOLE_RSH"
  std::optional<std::int32_t> port;
  std::string identity_file;
  bool names_appear = false; ///< names of hosts appear while they start, as those of pods do
  agent_program program;
};

/// Whether the remote shell understands the options of OpenSSH's ssh: its program is ssh, under any path.
bool is_openssh(const ssh_options& options);

/// The words that run a command line on a host; the command line follows them as one word.
std::vector<std::string> remote_shell_words(const ssh_options& options, const std::string& host);

/// The command line for the remote login shell, which may be any shell, csh and fish among them: it contains only plain
/// words and texts in single quotes. `agent` are the words of the agent.
std::string agent_command_line(std::vector<std::string> agent, const std::string& host);

/// Whether the `kubectl exec` that a remote shell calls has printed that the pod does not exist yet; if `names_appear`, also
/// whether ssh has printed that it cannot resolve the name. Only ssh can tell: its configuration may know other names, and
/// jump hosts may resolve them.
bool says_host_is_missing(const std::deque<std::string>& printed, bool names_appear);

placer ssh_placer(const ssh_options& options);

} // namespace farandole
