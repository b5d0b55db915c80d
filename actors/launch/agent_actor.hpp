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

#include "actors/event_loop/atoms.hpp"
#include "actors/event_loop/clock.hpp"
#include "actors/event_loop/link.hpp"
#include "actors/event_loop/link_messages.hpp"
#include "actors/launch/address_tester.hpp"
#include "actors/launch/host_driver.hpp"
#include "actors/launch/job_ending.hpp"
#include "actors/launch/link_output.hpp"
#include "actors/launch/record_sender.hpp"
#include "actors/launch/slot.hpp"
#include "actors/launch/worker_records.hpp"
#include "messages/wire/placement.hpp"

namespace farandole {

using dial_atom = caf::atom_constant<caf::atom("dial")>;

/// INTERNAL: the traces that the launcher has requested; null: they have ended by themselves.
struct agent_traces {
  std::uint32_t number = 0; ///< of the request
  std::shared_ptr<written_traces> traces;
};

using agent_actor = slot_owner_actor::extend<
    /// Dial the launcher.
    caf::reacts_to<start_atom>,
    /// INTERNAL: dial it again.
    caf::reacts_to<retry_atom>,
    /// INTERNAL: the IPv4 addresses of the launcher had time to answer.
    caf::reacts_to<dial_atom>,
    /// The agent received this signal.
    caf::reacts_to<interrupt_atom, int>,
    /// The command that started the agent has ended.
    caf::reacts_to<close_atom>,
    /// From links.
    caf::reacts_to<link_opened>, caf::reacts_to<link_received>, caf::reacts_to<link_closed>,
    /// From a slot.
    caf::reacts_to<slot_input_taken>,
    /// INTERNAL: a time that job_ending asked for has come.
    caf::reacts_to<due_atom>,
    /// From the thread that writes traces.
    caf::reacts_to<agent_traces>,
    /// From the tester of addresses.
    caf::reacts_to<address_report>>;

struct agent_spec {
  std::vector<std::pair<std::string, std::uint16_t>> launcher;
  agent_hello hello;
  link_settings links;
  job_ending::times times;
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
  /// May be empty. Called on the loop, before `finished`, if no address of the launcher could be reached, and no process
  /// without the job's secret has answered.
  std::function<void()> unreachable;
  /// If it is not empty, the agent ends when a worker has failed by itself. Called on the loop, before `finished`.
  std::function<void()> worker_failed;
  /// Whether the launcher may start after the agent: then the agent dials again until `links.connect_timeout` has
  /// passed since its start.
  bool waits_for_launcher = false;
  /// Called on the loop when the agent begins to wait for the launcher. May be empty.
  std::function<void(const std::string& notice)> warn;
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
    bool is_worker = false;
    bool told_to_end = false; ///< the launcher has sent it a signal
  };

  void start();
  void dial_launcher();
  void dial_address(const std::string& ip, std::uint16_t port);
  void dial_delayed();
  void opened(const link_opened& event);
  void received(const link_received& event);
  void closed(const link_closed& event);
  void dial_failed();
  void handle(const address_test& request);
  void end_test();
  void start_process(const start_request& request);
  void handle(const record_request& request);
  void handle(const agent_traces& event);
  void send_next_part(std::uint32_t request);
  void ended(const slot_ended& event);
  void finished(const slot_finished& event);
  void interrupted(int signal);
  /// Terminates all processes, then the agent. `problem` is empty if this was requested.
  void end(const std::string& problem);
  void follow(const job_ending::step& step);
  void release_output();
  void finish_if_empty();
  void send(const envelope& message);

  agent_actor::pointer self_;
  agent_spec spec_;
  job_ending ending_;
  caf::actor link_; ///< null before the launcher has proved the secret and after the end of the link
  link_id number_ = 0;
  std::map<link_id, std::pair<std::string, std::uint16_t>>
      dialled_; ///< addresses whose links have neither opened nor failed
  link_id last_dialled_ = 0;
  /// IPv6 addresses that are not dialled yet: IPv4 is preferred, because not all data paths support IPv6.
  std::vector<std::pair<std::string, std::uint16_t>> delayed_;
  std::vector<std::string> failures_; ///< of the last try
  bool untrusted_ = false;            ///< a process without the job's secret has answered
  bool warned_ = false;
  instant deadline_{}; ///< of the last try
  std::map<process_number, entry> processes_;
  address_tester_actor tester_;          ///< null: the launcher tests no addresses
  worker_records records_;               ///< of the processes that join the job
  std::unique_ptr<trace_writer> traces_; ///< null: the launcher has not requested traces
  std::optional<record_sender> sending_; ///< the records that the launcher has requested
  std::string worker_failure_;           ///< how a worker has failed by itself, if the agent ends with it
  bool accepted_ = false;
  bool asked_to_leave_ = false;
  std::optional<std::string> problem_; ///< set when the agent ends
};

agent_actor::behavior_type agent(agent_actor::stateful_pointer<agent_state> self, const agent_spec& spec);

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::agent_traces)
