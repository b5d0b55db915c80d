// The agents of a job's hosts, as the launcher sees them: starts them by the placer's commands, accepts their links,
// forwards messages between slots and agents, and reports which hosts can be used. elastic/agent_table.hpp decides. It
// also forwards messages between agents and programs of the user that run a command on a host (farandole rsh).
#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/event_loop/clock.hpp"
#include "actors/event_loop/link.hpp"
#include "actors/event_loop/link_messages.hpp"
#include "actors/event_loop/log.hpp"
#include "actors/launch/far_slot.hpp"
#include "actors/launch/host_driver.hpp"
#include "actors/launch/placer.hpp"
#include "actors/launch/placer_commands.hpp"
#include "actors/launch/record_gatherer.hpp"
#include "actors/launch/user_commands.hpp"
#include "elastic/agent_table.hpp"
#include "messages/wire/reachability.hpp"

namespace farandole {

/// The agent of a host is connected: processes can be started there.
struct host_connected {
  std::string host;
  agent_hello facts;
};

/// A host cannot be used: its agent could not be started, or was lost.
struct host_unusable {
  std::string host;
  std::string cause;
  int code = 1;
  bool was_connected = false;
  bool timed_out = false;           ///< no agent has connected within the start timeout
  std::vector<std::string> printed; ///< the last lines of the command that was to start the agent
};

/// The agent of this host received SIGTERM: its workers are to leave.
struct host_leaves {
  std::string host;
};

using host_watcher_actor = caf::typed_actor<caf::reacts_to<host_connected>, caf::reacts_to<host_unusable>,
                                            caf::reacts_to<host_leaves>>;

/// Exactly these hosts are to have agents.
struct hosts_wanted {
  std::vector<std::string> hosts;
};

/// The agent of a host reports about a test of addresses.
struct host_report {
  std::string host;
  address_report report;
};

using reach_watcher_actor = host_watcher_actor::extend<caf::reacts_to<host_report>>;

/// Sends this test to the agent of a host, and reports to this actor.
struct host_test {
  std::string host;
  address_test test;
  reach_watcher_actor watcher;
};

/// From now on report the state of hosts to this actor.
struct watch_hosts {
  host_watcher_actor watcher;
};

/// Starts and watches the agents of hosts. The simulation has an implementation of its own.
using placement_actor = caf::typed_actor<caf::reacts_to<hosts_wanted>, caf::reacts_to<watch_hosts>>;

using agent_registry_actor = agent_request_actor::extend<
    /// From the gatherer of event records.
    caf::reacts_to<ask_for_records>, caf::reacts_to<record_taken>, caf::reacts_to<hosts_wanted>,
    caf::reacts_to<watch_hosts>, caf::reacts_to<host_test>,
    /// The job has ended: dismiss all agents, then end.
    caf::reacts_to<close_atom>,
    /// From the slots in which the placer's commands run.
    caf::reacts_to<slot_ended>, caf::reacts_to<slot_finished>,
    /// From links.
    caf::reacts_to<link_opened>, caf::reacts_to<link_received>, caf::reacts_to<link_closed>,
    /// This listener accepts the links of agents; all listeners have the same port.
    caf::reacts_to<listening>,
    /// INTERNAL: a time that the table asked for has come.
    caf::reacts_to<due_atom>,
    /// INTERNAL: the agents had time to leave.
    caf::reacts_to<overdue_atom>>;

struct agent_registry_spec {
  agent_rules rules;
  placer place;     ///< without a command if users start the agents
  slot_maker slots; ///< for the placer's commands
  std::string secret;
  forward_target rendezvous;            ///< that workers dial, as this host reaches it
  std::string ip;                       ///< of this host, at which a listener accepts agents
  std::vector<std::string> environment; ///< of the placer's commands
  std::function<void(const std::string& host)> agent_connected = {}; ///< may be empty; called on the loop
  const process_keeper* keeper = nullptr;
  std::chrono::nanoseconds leave_timeout = std::chrono::seconds{10}; ///< for agents to leave at the end
  logger* log = nullptr;
};

class agent_registry_state {
public:
  static inline const char* name = "agent registry";

  explicit agent_registry_state(agent_registry_actor::pointer self) : self_(self), table_({}) {}

  agent_registry_actor::behavior_type begin(const agent_registry_spec& spec);

private:
  /// A host that was lost and whose slots have not ended yet.
  struct loss {
    host_unusable event; ///< for the watcher, after the ends of the slots
    std::set<process_number> slots;
  };

  void take(const agent_request& request);
  void over(const agent_request_over& event);
  void opened(const link_opened& event);
  void received(const link_received& event);
  void closed(const link_closed& event);
  void received_first(const link_received& event);
  void received_from_agent(const std::string& host, const link_received& event);
  void ask_for(const ask_for_records& request);
  void send_test(const host_test& event);
  void run_command(link_id program, const command_request& request);
  void forward_command(const user_commands::command& command, const envelope& message);
  void acknowledge_unread(const link_received& event);
  void acknowledge_all(const user_commands::command& command);
  void lose_agent(link_id link, const std::string& reason);
  void refuse(const std::string& reason, link_id link);
  void command_ended(const slot_ended& event);
  void command_finished(const slot_finished& event);
  void close();
  void follow(const agent_table::step& step);
  void start_agents(const std::vector<std::string>& hosts);
  bool forward_ports(const std::string& host, const std::deque<std::string>& printed);
  void stop_command(const std::string& host);
  void report_connected(const std::vector<std::string>& hosts);
  /// Tells the user that a host is tried again later.
  void postpone(const std::string& host, const std::string& cause);
  void report(const agent_table::failure& failure);
  void count(const std::string& host);
  void send(link_id link, const envelope& message);
  std::string last_line_about(const std::string& host) const;
  void end_if_empty();

  agent_registry_actor::pointer self_;
  agent_registry_spec spec_;
  agent_table table_;
  host_watcher_actor watcher_;
  std::vector<caf::actor> listeners_;
  std::uint16_t port_ = 0; ///< that agents dial
  std::map<link_id, caf::actor> links_;
  std::map<std::string, std::map<process_number, far_slot_actor>>
      slots_;                          ///< by host; processes that are not over
  std::map<std::string, loss> losses_; ///< by host
  user_commands user_commands_;
  reach_watcher_actor reach_watcher_; ///< gets the reports about tested addresses
  record_collector_actor collector_;  ///< gets the event records that agents send
  placer_commands commands_;
  std::map<placer_commands::number, slot_actor> command_slots_; ///< in which the placer's commands run
  std::optional<instant> timer_;
  bool closing_ = false;
};

agent_registry_actor::behavior_type
agent_registry(agent_registry_actor::stateful_pointer<agent_registry_state> self,
               const agent_registry_spec& spec);

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::listening)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::host_connected)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::host_unusable)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::host_leaves)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::hosts_wanted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::watch_hosts)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::host_report)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::host_test)
