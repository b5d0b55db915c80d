#include "tools/farandole/placers/ssh.hpp"

#include <algorithm>
#include <string_view>

#include "tools/farandole/cli/shell_words.hpp"

namespace farandole {

namespace {

/// The options of the launcher for ssh, as ssh spells them.
std::vector<std::string> port_and_key(const ssh_options& options) {
  std::vector<std::string> words;
  if (options.port)
    words.insert(words.end(), {"-p", std::to_string(*options.port)});
  if (!options.identity_file.empty())
    words.insert(words.end(), {"-i", options.identity_file});
  return words;
}

/// The options by which ssh forwards ports of the host, which its sshd chooses, to these targets.
std::vector<std::string> forwarding_options(std::span<const forward_target> targets) {
  std::vector<std::string> words{"-o", "ExitOnForwardFailure=yes", "-o", "LogLevel=INFO"};
  for (const auto& target : targets) {
    const auto ip = target.ip.find(':') == std::string::npos ? target.ip : "[" + target.ip + "]";
    words.insert(words.end(), {"-R", "127.0.0.1:0:" + ip + ":" + std::to_string(target.port)});
  }
  return words;
}

} // namespace

bool is_openssh(const ssh_options& options) {
  if (options.remote_shell.empty())
    return true;
  const auto& program = options.remote_shell.front();
  return program == "ssh" || program.ends_with("/ssh");
}

std::vector<std::string> remote_shell_words(const ssh_options& options, const std::string& host) {
  const auto given = port_and_key(options);
  auto words = options.remote_shell;
  if (!words.empty()) {
    words.push_back(host);
    // They precede its own options, because the first port that ssh reads takes precedence.
    if (is_openssh(options))
      words.insert(words.begin() + 1, given.begin(), given.end());
    return words;
  }
  words = {"ssh",           "-o", "PasswordAuthentication=no", "-o", "StrictHostKeyChecking=no", "-o",
           "BatchMode=yes", host};
  words.insert(words.end(), given.begin(), given.end());
  return words;
}

std::string agent_command_line(std::vector<std::string> agent, const std::string& host) {
  agent.insert(agent.begin(), "exec");
  agent.insert(agent.end(), {"--host", host});
  return shell_line(agent);
}

bool says_host_is_missing(const std::deque<std::string>& printed, bool names_appear) {
  constexpr std::string_view of_openssh = "ssh: Could not resolve hostname ";
  constexpr std::string_view of_kubectl[] = {
      "Error from server (NotFound): pods ",                       // there is no such pod
      "does not have a host assigned",                             // it waits for a node
      "error: unable to upgrade connection: container not found ", // it has a node, and does not run yet
  };
  return std::ranges::any_of(printed, [&](const std::string& line) {
    const auto contains = [&](std::string_view text) { return line.find(text) != std::string::npos; };
    return (names_appear && contains(of_openssh)) || std::ranges::any_of(of_kubectl, contains);
  });
}

placer ssh_placer(const ssh_options& options) {
  placer made;
  const bool is_ssh = options.remote_shell.empty();
  made.name = "ssh";
  made.remedy =
      is_ssh ? "; install an ssh client, or name another remote shell by FARANDOLE_RSH"
             : "; check the remote shell (" + options.origin + "): " + shell_line(options.remote_shell);
  made.programs = options.program.candidates();
  made.host_is_missing = [names_appear = options.names_appear](const std::deque<std::string>& printed) {
    return says_host_is_missing(printed, names_appear);
  };
  auto program = options.program;
  if (!is_openssh(options))
    program.dial_timeout = {};
  made.command = [options, program](std::span<const std::string> hosts, std::uint16_t port) {
    auto words = remote_shell_words(options, hosts.front());
    words.push_back(agent_command_line(agent_words(program, port), hosts.front()));
    return words;
  };
  if (is_openssh(options))
    made.forwarding_command = [options](const std::string& host, std::span<const forward_target> targets) {
      auto words = remote_shell_words(options, host);
      const auto forwarding = forwarding_options(targets);
      words.insert(words.end(), forwarding.begin(), forwarding.end());
      words.push_back(agent_command_line(forwarded_agent_words(options.program), host));
      return words;
    };
  return made;
}

} // namespace farandole
