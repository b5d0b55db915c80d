// The host driver of a job that is not elastic. It starts the job's processes on this host, with one slot actor for
// each, and waits until they have ended. job_ending decides what the end of one process means for the others.
#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/interfaces/slots.hpp"
#include "actors/launch/job_ending.hpp"
#include "actors/launch/root_cause.hpp"
#include "actors/launch/slot.hpp"
#include "actors/launch/worker_records.hpp"

namespace farandole {

using interrupt_atom = caf::atom_constant<caf::atom("interrupt")>;
using due_atom = caf::atom_constant<caf::atom("due")>;

using host_driver_actor = caf::typed_actor<
    /// Start all processes.
    caf::reacts_to<start_atom>,
    /// The launcher received this signal: end the job.
    caf::reacts_to<interrupt_atom, int>,
    /// From a slot.
    caf::reacts_to<slot_ended>, caf::reacts_to<slot_finished>,
    /// From the rendezvous.
    caf::reacts_to<slot_fate>,
    /// INTERNAL: a time that job_ending asked for has come.
    caf::reacts_to<due_atom>>;

struct hands;

struct host_driver_spec {
  std::shared_ptr<const farandole::hands> hands; ///< not null
  std::vector<slot_spec> slots;                  ///< the position of each equals its slot number
  job_ending::times times;
  /// Called on the loop when a process has ended. `manner` is text such as "exited with code 3".
  std::function<void(std::int32_t slot, const std::string& manner)> slot_exited;
  /// May be empty. Called on the loop when a process that ran has ended, for its event record.
  std::function<void(const worker_ending& ending)> worker_ended;
  /// May be empty. Called on the loop when all output of a slot was forwarded.
  std::function<void(std::int32_t slot)> slot_complete;
  /// Called on the loop, once, after the last process has ended, with the launcher's exit code. The actor ends after
  /// it.
  std::function<void(int code)> finished;
};

class host_driver_state {
public:
  static inline const char* name = "host driver";

  explicit host_driver_state(host_driver_actor::pointer self) : self_(self) {}

  host_driver_actor::behavior_type begin(const host_driver_spec& spec);

private:
  void start();
  void ended(const slot_ended& event);
  void finished(const slot_finished& event);
  void follow(const job_ending::step& step);
  void say(const std::string& line);
  void summarise(const root_cause::conclusion& cause);

  host_driver_actor::pointer self_;
  host_driver_spec spec_;
  std::unique_ptr<job_ending> rules_;
  root_cause cause_;
  std::vector<slot_actor> slots_;
  std::map<std::int32_t, std::deque<std::string>> last_errors_; ///< by slot
};

host_driver_actor::behavior_type host_driver(host_driver_actor::stateful_pointer<host_driver_state> self,
                                             const host_driver_spec& spec);

} // namespace farandole
