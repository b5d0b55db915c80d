// The agent of a host. It dials the launcher, starts processes on its host at the launcher's request, forwards their
// output and exit status, and leaves nothing behind: when the link to the launcher ends, or the command that started
// the agent, it terminates its processes and ends. If it is killed itself, its process keeper kills them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "messages/settings/settings.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// The exit code of an agent that a command of the launcher has started and that could not connect to the launcher,
/// although no process without the secret has answered.
inline constexpr int launcher_unreachable_code = 69; // EX_UNAVAILABLE of sysexits.h
/// The exit code of an agent that has ended with its worker (`ends_with_worker`).
inline constexpr int worker_failed_code = 70; // EX_SOFTWARE

struct agent_options {
  struct address {
    std::string ip;
    std::uint16_t port = 0;
  };

  std::vector<address> launcher; ///< all are dialled at once, and the first that proves the secret is kept
  std::string secret;
  std::string host;       ///< the name under which the launcher knows this host
  std::int32_t slots = 0; ///< 0: as the launcher decides
  std::int32_t cores = 1; ///< number of usable cores
  std::string version;
  std::string program; ///< path of this program, for messages
  /// The port of this host that ssh forwards to the rendezvous; 0: workers reach it themselves.
  std::uint16_t forwarded_rendezvous = 0;
  std::chrono::seconds dial_timeout{}; ///< for reaching the launcher; 0: the start timeout
  /// Descriptor whose end is the end of the agent. Owned by the caller. -1: none; the launcher may start after the agent.
  int watched_input = -1;
  /// Whether the agent ends when a worker fails by itself, for clusters that start the agent again elsewhere.
  bool ends_with_worker = false;
  settings values = settings::built_in();
};

/// Runs an agent until it is told to leave. Returns its exit code: 0 if the launcher has told it to leave, otherwise one
/// of the codes above or 1, after a message on standard error. SIGTERM asks the launcher to let the host leave in
/// order; a second one, SIGINT and SIGHUP end the agent at once. The process must have only one thread when it calls
/// this.
int run_agent(const agent_options& options);

} // namespace farandole
