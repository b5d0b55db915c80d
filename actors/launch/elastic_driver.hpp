// The host driver of an elastic job: the hosts may change while it runs, and so may the processes. What is to
// be done about it is decided by the worker scheduler (elastic/worker_scheduler.hpp); here it is done.
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
#include "actors/launch/discoverer.hpp"
#include "actors/launch/host_driver.hpp"
#include "actors/launch/job_ending.hpp"
#include "actors/launch/root_cause.hpp"
#include "actors/launch/slot.hpp"
#include "elastic/drain.hpp"
#include "elastic/worker_scheduler.hpp"

namespace farandole {

using elastic_driver_actor = caf::typed_actor<
    /// Find hosts and start processes.
    caf::reacts_to<start_atom>,
    /// The launcher got this signal: end the job.
    caf::reacts_to<interrupt_atom, int>,
    /// From the rendezvous.
    caf::reacts_to<generation_formed>, caf::reacts_to<slot_leaving>, caf::reacts_to<drain_asked>,
    caf::reacts_to<slot_fate>,
    /// From the discoverer.
    caf::reacts_to<discovery_result>,
    /// From a slot.
    caf::reacts_to<slot_ended>, caf::reacts_to<slot_finished>,
    /// INTERNAL: a time that crew or job_ending asked for has come.
    caf::reacts_to<due_atom>>;

/// What stands in for processes, the script and the terminal, in the simulated world.
struct simulated_hands {
  std::function<slot_actor(const slot_spec& slot_spec, const slot_owner_actor& driver)> slot;
  std::function<discoverer_actor(const discovery_owner_actor& driver)> discoverer;
  std::function<void(const std::string& line)> say;
};

struct elastic_driver_spec {
  worker_scheduler_options scheduler;
  std::vector<host_slots> hosts;         ///< without a script, these
  std::optional<discoverer_spec> script; ///< finds them
  job_ending::times times;
  std::uint64_t seed = 0;          ///< for how long failed hosts are left alone
  std::vector<failed_host> failed; ///< before this launcher was started again
  /// What is to be started there. The error ends the job.
  std::function<expected<slot_spec>(const worker_scheduler::start& start)> slot_for;
  /// Called on the loop when a process has ended, with how in words: "exited with code 3".
  std::function<void(std::int32_t slot, const std::string& manner)> slot_exited;
  /// Called on the loop: this worker is to leave in order at the next occasion. One that is no member gets
  /// SIGTERM as well.
  std::function<void(std::int32_t slot)> slot_retired;
  /// Called on the loop, once: no process is started any more.
  std::function<void()> nobody_comes;
  /// Called on the loop: a host has come on the blacklist; these are all that ever were. May be empty.
  std::function<void(std::vector<failed_host> hosts)> hosts_failed;
  /// Called on the loop: the answer to a drain, which comes twice: at once, and when all of them are out.
  std::function<void(const drain_answered& answer)> answer_drain;
  /// Called on the loop, once, when all is over: with the launcher's exit code. The actor is gone after it.
  std::function<void(int code)> finished;
  std::shared_ptr<const simulated_hands> simulated; ///< none: the real ones; otherwise there is no writer
};

class elastic_driver_state {
public:
  static inline const char* name = "elastic driver";

  explicit elastic_driver_state(elastic_driver_actor::pointer self) : self_(self) {}

  elastic_driver_actor::behavior_type begin(const elastic_driver_spec& spec, output_writer* writer);

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

  void discovery_failed(const discovery_result& result);
  void follow(const worker_scheduler::step& step);
  void start_worker(const worker_scheduler::start& start);
  void retire(std::int32_t slot);
  /// The job ends with this code, by no rule of the worker scheduler's.
  void give_up(int code);
  void follow(const job_ending::step& step);
  void stop_discovery();
  void finish_if_empty();
  /// Says whose failure ended the job, if one did; the launcher's exit code.
  int summarise();
  void say(const std::string& line);
  wall_time wall() const;

  elastic_driver_actor::pointer self_;
  elastic_driver_spec spec_;
  output_writer* writer_ = nullptr;
  std::unique_ptr<worker_scheduler> scheduler_;
  std::unique_ptr<job_ending> ending_;
  std::map<std::int32_t, slot_actor> slots_; ///< whose output has not ended
  std::set<std::int32_t> members_;           ///< slots of the last generation
  drain_watch drains_;
  root_cause cause_;
  std::map<std::int32_t, failure_report> reports_; ///< of workers that run, or ended in this generation
  discoverer_actor discoverer_;
  bool discovered_once_ = false;
  std::string start_failure_;     ///< why a process could not be started, as told last
  std::vector<std::string> told_; ///< of discovery, and not to be told every second
  std::mt19937_64 chance_;
};

elastic_driver_actor::behavior_type
elastic_driver(elastic_driver_actor::stateful_pointer<elastic_driver_state> self,
               const elastic_driver_spec& spec, output_writer* writer);

} // namespace farandole
