// The actor of an agent (agent.hpp).
#pragma once

#include <caf/all.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/event_loop/link.hpp"
#include "actors/event_loop/link_messages.hpp"
#include "actors/launch/host_driver.hpp"
#include "actors/launch/job_ending.hpp"
#include "actors/launch/link_output.hpp"
#include "actors/launch/slot.hpp"
#include "messages/wire/placement.hpp"

namespace farandole {

using agent_actor = slot_owner_actor::extend<
    /// Dial the launcher.
    caf::reacts_to<start_atom>,
    /// The agent received this signal.
    caf::reacts_to<interrupt_atom, int>,
    /// The command that started the agent has ended.
    caf::reacts_to<close_atom>,
    /// From links.
    caf::reacts_to<link_opened>, caf::reacts_to<link_received>, caf::reacts_to<link_closed>,
    /// From a slot.
    caf::reacts_to<slot_input_taken>,
    /// INTERNAL: a time that job_ending asked for has come.
    caf::reacts_to<due_atom>>;

struct agent_spec {
  std::vector<std::pair<std::string, std::uint16_t>> launcher;
  agent_hello hello;
  link_settings links;
  slot_maker slots;                       ///< for the processes that the launcher starts
  std::vector<std::string> environment;   ///< of this process
  std::vector<std::string> own_variables; ///< "NAME=value", for workers: the secret's descriptor
  std::vector<int> inherited;             ///< by workers: the secret's descriptor
  const process_keeper* keeper = nullptr;
  /// Returns the address of this host on connections to `ip`. Must not block.
  std::function<std::string(const std::string& ip)> own_address_towards;
  /// Called on the loop, once: no process runs, and the link is closed. `problem` is empty if the launcher has told the
  /// agent to leave.
  std::function<void(const std::string& problem)> finished;
};

class agent_state {
public:
  static inline const char* name = "agent";

  explicit agent_state(agent_actor::pointer self) : self_(self), ending_(0, {}) {}

  agent_actor::behavior_type begin(const agent_spec& spec);

private:
  struct entry {
    slot_actor slot;
    std::shared_ptr<link_output> output;
  };

  void dial_launcher();
  void opened(const link_opened& event);
  void received(const link_received& event);
  void closed(const link_closed& event);
  void start_process(const start_request& request);
  void ended(const slot_ended& event);
  void finished(const slot_finished& event);
  void interrupted(int signal);
  /// Terminates all processes, then the agent. `problem` is empty if this was requested.
  void end(const std::string& problem);
  void follow(const job_ending::step& step);
  void finish_if_empty();
  void send(const envelope& message);

  agent_actor::pointer self_;
  agent_spec spec_;
  job_ending ending_;
  caf::actor link_; ///< null before the launcher has proved the secret and after the end of the link
  link_id number_ = 0;
  std::map<link_id, std::pair<std::string, std::uint16_t>>
      dialled_; ///< addresses whose links have neither opened nor failed
  std::vector<std::string> failures_;
  std::map<process_number, entry> processes_;
  bool accepted_ = false;
  bool asked_to_leave_ = false;
  std::optional<std::string> problem_; ///< set when the agent ends
};

agent_actor::behavior_type agent(agent_actor::stateful_pointer<agent_state> self, const agent_spec& spec);

} // namespace farandole
