// The agents of a job's hosts: on which hosts an agent is to be started now, which agents are accepted, which hosts
// count as lost, and when a host that cannot be reached is tried again. Pure decisions: the launcher feeds in events
// and carries out the returned steps (actors/launch/agent_registry.hpp).
//
// The states of a host:
//
//   queued ─▶ starting ─▶ connected ─▶ leaving ─▶ removed
//     ▲          ▼            ▼
//     └────── waiting ◀───────┘
//
//   queued:  its agent is started once fewer hosts than the limit are starting
//   leaving: its agent was told to leave
//   waiting: it failed, or its name does not exist yet, and is tried again with exponential backoff; or never
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "messages/values/backoff.hpp"
#include "messages/wire/placement.hpp"

namespace farandole {

struct agent_rules {
  std::size_t starts_at_once = 32; ///< greatest number of hosts that are starting
  std::chrono::nanoseconds start_timeout =
      std::chrono::seconds{30};                        ///< from the start to the hello of an agent
  std::string start_timeout_setting = "start timeout"; ///< named in the error when it expires
  bool retries = false;                                ///< elastic jobs: a host that failed is tried again
  std::size_t most_others = 0; ///< greatest number of agents that users start, on hosts of any name
  std::string version;         ///< of this launcher, for messages
};

class agent_table {
public:
  using time_point = std::chrono::steady_clock::time_point;
  using link = std::uint64_t;

  /// A host on which no process runs any more, or none can be started now.
  struct failure {
    std::string host;
    std::string cause; ///< "the connection ended"
    int code = 1;      ///< exit code for a job that ends by it
    bool was_connected = false;
    bool timed_out = false; ///< no agent has connected within the start timeout

    friend bool operator==(const failure&, const failure&) = default;
  };

  /// The actions to take after an event.
  struct step {
    std::vector<std::string> starts;                     ///< start the agents of these hosts
    std::vector<std::string> stops;                      ///< end the commands that start these hosts' agents
    std::vector<std::pair<link, std::string>> refusals;  ///< refuse these agents, with the reason
    std::vector<std::pair<link, std::string>> connected; ///< accept these agents; their hosts can be used
    std::vector<link> dismissals;                        ///< tell these agents to leave
    std::vector<failure> failures;
    std::vector<std::pair<std::string, std::string>>
        postponed;                       ///< hosts that do not exist yet, with the cause
    std::optional<time_point> call_next; ///< call due() then
  };

  explicit agent_table(agent_rules rules) : rules_(std::move(rules)) {}

  /// These hosts, and no others, are to have agents. Agents of other hosts are dismissed once none of their processes
  /// runs. Hosts whose users start the agents need not be named.
  step want(const std::vector<std::string>& hosts, time_point current_time);
  /// The command that starts the agent of this host has ended, although its agent had not connected, or could not be
  /// run. `code` is its exit code.
  step command_failed(const std::string& host, std::string cause, int code, time_point current_time);
  /// The same, because the host does not exist yet: its name cannot be resolved. It is no failure before the start
  /// timeout, because the names of a cluster's pods appear while a job starts.
  step host_missing(const std::string& host, std::string cause, int code, time_point current_time);
  /// The first message of an agent.
  step hello(link from, const agent_hello& hello, time_point current_time);
  /// An agent's host is to leave: it is not wanted any more. Its agent is dismissed once no process runs; in a job of
  /// fixed size at once, because there the processes cannot leave before the end of the job.
  step leaving(link from, time_point current_time);
  /// The link of an agent has ended. `reason` may be empty.
  step closed(link from, const std::string& reason, time_point current_time);
  /// The number of processes on a host has changed.
  step running(const std::string& host, std::size_t processes, time_point current_time);
  /// The job has ended: dismisses all agents and starts no more.
  step end(time_point current_time);
  step due(time_point current_time);

  /// The link of the host's agent, if it is connected: the agent can start processes.
  std::optional<link> link_of(const std::string& host) const;
  /// The same, also while the agent is leaving: it serves the processes that it has started.
  std::optional<link> serving_link_of(const std::string& host) const;
  std::optional<std::string> host_of(link from) const;
  /// Whether the host waits for the agent that a command is to start.
  bool is_starting(const std::string& host) const;
  /// What the agents of connected hosts have reported, by name of the host.
  const std::map<std::string, agent_hello>& facts() const { return facts_; }
  /// Hosts that are wanted and not connected, in the order of their names.
  std::vector<std::string> missing() const;
  bool empty() const { return hosts_.empty(); }

private:
  enum class state : std::uint8_t { queued, starting, connected, leaving, waiting };
  struct entry {
    state at = state::queued;
    bool wanted = true;
    std::size_t processes = 0;
    int failures = 0;                  ///< in a row
    time_point deadline{};             ///< of starting or waiting
    std::optional<time_point> give_up; ///< end of the start timeout in a job that does not retry failures
    link agent = 0;
  };

  static constexpr backoff waits_{std::chrono::seconds{1}, std::chrono::seconds{60}};
  static constexpr backoff waits_for_name_{std::chrono::seconds{1}, std::chrono::seconds{5}};

  std::string objection(const agent_hello& hello) const;
  void dismiss(entry& entry, step& decision);
  void fail(const std::string& host, entry& entry, std::string cause, int code, time_point current_time,
            step& decision);
  void dismiss_idle(step& decision);
  step& finish(step& decision, time_point current_time);

  agent_rules rules_;
  std::map<std::string, entry> hosts_;
  std::map<link, std::string> names_; ///< of the hosts whose agents are connected or leaving
  std::map<std::string, agent_hello> facts_;
  bool ended_ = false;
};

} // namespace farandole
