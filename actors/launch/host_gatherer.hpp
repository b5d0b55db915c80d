// Waits, before any worker of a job of fixed size starts, until the agents of all its hosts are connected.
#pragma once

#include <caf/all.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "actors/launch/agent_registry.hpp"

namespace farandole {

struct host_gatherer_spec {
  std::vector<std::string> hosts; ///< the hosts whose agents are to be started
  std::size_t count = 0;          ///< number of agents to wait for
  std::string placer;             ///< "ssh", for messages; empty: users start the agents
  placement_actor agents;
  std::function<void(const std::string& line)> say;
  std::chrono::nanoseconds timeout{}; ///< for agents that users start
  std::string timeout_setting;
  /// May be empty. Called on the loop, before `finished`, if the wait fails only because agents have not come in time.
  std::function<void()> timed_out;
  /// Called on the loop when the wait is over, with the exit code if it failed. The actor ends after it.
  std::function<void(int code, std::map<std::string, agent_hello> facts)> finished;
};

using host_gatherer_actor =
    host_watcher_actor::extend<caf::reacts_to<start_atom>,
                               /// The launcher received this signal.
                               caf::reacts_to<interrupt_atom, int>,
                               /// INTERNAL: the agents that users start had time to come.
                               caf::reacts_to<overdue_atom>>;

class host_gatherer_state {
public:
  static inline const char* name = "host gatherer";

  explicit host_gatherer_state(host_gatherer_actor::pointer self) : self_(self) {}

  host_gatherer_actor::behavior_type begin(const host_gatherer_spec& spec);

private:
  void start();
  void overdue();
  void finish_if_complete();
  void finish(int code);

  host_gatherer_actor::pointer self_;
  host_gatherer_spec spec_;
  std::map<std::string, agent_hello> connected_;
  std::map<std::string, host_unusable> failed_;
};

host_gatherer_actor::behavior_type
host_gatherer(host_gatherer_actor::stateful_pointer<host_gatherer_state> self,
              const host_gatherer_spec& spec);

} // namespace farandole
