// Lets the hosts of a job test, before any worker starts, which of their addresses the others reach. elastic/reach_check.hpp
// decides; the agents, and on the launcher's host an actor of its own, listen and dial (address_tester.hpp).
#pragma once

#include <caf/all.hpp>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/launch/address_tester.hpp"
#include "actors/launch/agent_registry.hpp"
#include "actors/launch/launcher.hpp"
#include "elastic/reach_check.hpp"

namespace farandole {

struct reach_checker_spec {
  std::vector<reach_check::tested_host> hosts;
  std::string own_host; ///< the one that is the launcher's host; empty: none
  std::chrono::milliseconds timeout{};
  link_settings links; ///< of the launcher's host
  agent_registry_actor agents;
  std::function<void(const std::string& line)> say;
  /// Called on the loop when the check is over, with the exit code if it failed. The actor ends after it.
  std::function<void(int code, reach_results results)> finished;
};

using reach_checker_actor =
    reach_watcher_actor::extend<caf::reacts_to<start_atom>,
                                /// The launcher received this signal.
                                caf::reacts_to<interrupt_atom, int>,
                                /// INTERNAL: a time that reach_check asked for has come.
                                caf::reacts_to<due_atom>>;

class reach_checker_state {
public:
  static inline const char* name = "reach checker";

  explicit reach_checker_state(reach_checker_actor::pointer self) : self_(self) {}

  reach_checker_actor::behavior_type begin(const reach_checker_spec& spec);

private:
  void start();
  void follow(const reach_check::step& step);
  void send(const std::string& host, const address_test& request);
  void finish(int code);

  reach_checker_actor::pointer self_;
  reach_checker_spec spec_;
  std::optional<reach_check> check_;
  address_tester_actor own_; ///< null: the launcher's host is not tested
};

reach_checker_actor::behavior_type
reach_checker(reach_checker_actor::stateful_pointer<reach_checker_state> self,
              const reach_checker_spec& spec);

} // namespace farandole
