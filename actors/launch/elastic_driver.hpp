// The host driver of an elastic job, whose hosts and processes may change while it runs. The worker scheduler
// (elastic/worker_scheduler.hpp) decides which processes to start and to stop; this actor carries out its decisions.
#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "actors/interfaces/slots.hpp"
#include "actors/launch/hands.hpp"
#include "actors/launch/host_driver.hpp"
#include "actors/launch/job_ending.hpp"
#include "actors/launch/root_cause.hpp"
#include "actors/launch/slot.hpp"
#include "elastic/drain.hpp"
#include "elastic/usable_hosts.hpp"
#include "elastic/worker_scheduler.hpp"

namespace farandole {

using elastic_driver_actor = caf::typed_actor<
    /// Start the job: find hosts and start processes.
    caf::reacts_to<start_atom>,
    /// The launcher received this signal: end the job.
    caf::reacts_to<interrupt_atom, int>,
    /// From the rendezvous.
    caf::reacts_to<generation_formed>, caf::reacts_to<slot_leaving>, caf::reacts_to<drain_asked>,
    caf::reacts_to<slot_fate>,
    /// From the discoverer.
    caf::reacts_to<discovery_result>,
    /// From the agents.
    caf::reacts_to<host_connected>, caf::reacts_to<host_unusable>, caf::reacts_to<host_leaves>,
    /// From a slot.
    caf::reacts_to<slot_ended>, caf::reacts_to<slot_finished>,
    /// From the program that has called the launcher.
    caf::reacts_to<workers_wanted>,
    /// INTERNAL: a time that worker_scheduler or job_ending asked for has come.
    caf::reacts_to<due_atom>>;

struct elastic_driver_spec {
  std::shared_ptr<const farandole::hands> hands; ///< not null
  worker_scheduler_options scheduler;
  discovered_hosts hosts; ///< the hosts of a job without a script; none if users start agents on them
  std::optional<discoverer_spec> script; ///< if set, finds the hosts
  job_ending::times times;
  std::uint64_t seed = 0;          ///< for the random part of the blacklist cooldown
  std::vector<failed_host> failed; ///< hosts that failed before this launcher was restarted
  std::size_t first_agents = 0; ///< not 0: users start the agents, and the first workers wait for this number
  /// Returns the process to start for a worker. `agent` is null on this machine. An error ends the job.
  std::function<expected<slot_spec>(const worker_scheduler::start& start, const agent_hello* agent)> slot_for;
  /// Called on the loop when a process has ended. `manner` is text such as "exited with code 3".
  std::function<void(std::int32_t slot, const std::string& manner)> slot_exited;
  /// May be empty. Called on the loop when a process that ran has ended, for its event record.
  std::function<void(const worker_ending& ending)> worker_ended;
  /// May be empty. Called on the loop when all output of a slot was forwarded.
  std::function<void(std::int32_t slot)> slot_complete;
  /// Called on the loop: this worker is to leave in order at the next commit. A worker that is not a member also
  /// receives SIGTERM, and SIGKILL later, unless the workers serve calls: then the caller lets it end.
  std::function<void(std::int32_t slot)> slot_retired;
  /// Called on the loop, once: no further process is started.
  std::function<void()> no_more_starts;
  /// May be empty. Called on the loop when a host was blacklisted, with all hosts that ever were on the blacklist.
  std::function<void(std::vector<failed_host> hosts)> hosts_failed;
  /// Called on the loop with the answers to a drain request: one at once, and one when all leaving workers have
  /// ended.
  std::function<void(const drain_answered& answer)> answer_drain;
  /// May be empty. Called on the loop, before `finished`, if the job fails because it has waited in vain for more slots.
  std::function<void()> timed_out;
  /// Called on the loop, once, after the last process has ended, with the launcher's exit code. The actor ends after
  /// it.
  std::function<void(int code)> finished;
};

class elastic_driver_state {
public:
  static inline const char* name = "elastic driver";

  explicit elastic_driver_state(elastic_driver_actor::pointer self) : self_(self) {}

  elastic_driver_actor::behavior_type begin(const elastic_driver_spec& spec);

private:
  void start();
  void interrupted(int signal);
  void discovered(const discovery_result& result);
  void formed(const generation_formed& event);
  void leaving(const slot_leaving& event);
  void drain(const drain_asked& event);
  void ended(const slot_ended& event);
  void finished(const slot_finished& event);
  void due();

  void connected(const host_connected& event);
  void failed(const host_unusable& event);
  void leaves(const host_leaves& event);

  void discovery_failed(const discovery_result& result);
  /// Passes the hosts that can be used to the scheduler.
  void use_hosts();
  void follow(const worker_scheduler::step& step);
  void start_worker(const worker_scheduler::start& start);
  void retire(std::int32_t slot);
  /// Sends this slot the signal of a step, and asks for due() at its time.
  void signal(std::int32_t slot, const job_ending::step& step);
  /// Ends the job with this exit code.
  void give_up(int code);
  void follow(const job_ending::step& step);
  void stop_discovery();
  void finish_if_empty();
  /// Prints which process caused the failure of the job, if it failed. Returns the launcher's exit code.
  int summarise();
  void say(const std::string& line);

  elastic_driver_actor::pointer self_;
  elastic_driver_spec spec_;
  std::unique_ptr<worker_scheduler> scheduler_;
  std::unique_ptr<job_ending> ending_;
  std::map<std::int32_t, slot_actor> slots_;   ///< slots whose output has not ended
  std::set<std::int32_t> members_;             ///< slots of the last generation
  std::map<std::int32_t, job_ending> retired_; ///< the ends of retired workers that are no members, by slot
  drain_watch drains_;
  root_cause cause_;
  std::map<std::int32_t, failure_report> reports_; ///< for workers that run, or ended in this generation
  usable_hosts hosts_;
  std::map<std::string, agent_hello> agents_; ///< what connected agents have reported, by host
  discoverer_actor discoverer_;
  bool discovered_once_ = false;
  std::string start_failure_; ///< the last start failure that was printed; not printed again
  std::vector<std::string>
      last_discovery_lines_; ///< the last lines about discovery; printed again only if they change
  std::mt19937_64 chance_;
};

elastic_driver_actor::behavior_type
elastic_driver(elastic_driver_actor::stateful_pointer<elastic_driver_state> self,
               const elastic_driver_spec& spec);

} // namespace farandole
