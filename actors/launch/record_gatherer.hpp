// Gathers the event records of all workers of a job into a folder: of this host, and of other hosts by way of their agents.
// A launcher has one gatherer; it gathers when the job has failed or lost a member, and when a program asks for it through
// the rendezvous. record_gathering decides when it is complete, and record_writer writes the files. It also begins and ends
// the traces of all workers: each host traces its own, and a gathering collects the results.
#pragma once

#include <caf/all.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/event_loop/atoms.hpp"
#include "actors/interfaces/slots.hpp"
#include "actors/interfaces/stalls.hpp"
#include "actors/launch/record_gathering.hpp"
#include "actors/launch/record_writer.hpp"
#include "messages/wire/envelope.hpp"

namespace farandole {

struct gathered_records {
  record_outcome outcome;
  std::vector<std::string> notices; ///< missing records
};

/// States in lines for users what ranks are doing, from the files of records in a folder. Returns before the deadline.
using record_explainer =
    std::function<std::string(const std::string& folder, const std::vector<std::int32_t>& ranks,
                              std::chrono::steady_clock::time_point deadline)>;

/// Gather these records now, or when the gathering before has ended.
struct gather_records {
  record_order order;                                         ///< to begin traces: without a folder
  std::chrono::milliseconds longest{0};                       ///< to wait for other hosts
  std::function<void(const gathered_records& gathered)> done; ///< called on the loop
  record_task task = {};
};

/// The job ends: end the traces, if there are any, and write them into a new folder. `done` is called on the loop; without
/// a folder if there are no traces.
struct finish_traces {
  std::string parent; ///< see record_folder.hpp
  std::chrono::seconds longest{0};
  std::function<void(const gathered_records& gathered)> done;
};

/// INTERNAL: the trace of each worker of this host has reached a bound.
struct traces_ended {
  std::uint32_t number = 0; ///< of the gathering that has begun them
};

/// INTERNAL: the traces of this host.
struct own_traces {
  std::uint32_t number = 0;
  std::shared_ptr<written_traces> traces;
};

/// Call `done` on the loop when all gatherings that were requested before have ended.
struct wait_for_gatherings {
  std::function<void()> done;
};

/// From the registry of agents: these hosts were asked for their records.
struct record_hosts {
  std::uint32_t number = 0;
  std::vector<std::string> hosts;
};

/// From the registry of agents: a record_part or records_sent.
struct host_records {
  std::string host;
  envelope message;
};

/// From the registry of agents: this host is lost.
struct record_host_lost {
  std::string host;
  std::string reason;
};

/// INTERNAL: the part of this host is written.
struct record_part_written {
  std::uint32_t number = 0;
  std::string host;
};

/// INTERNAL: all files are complete.
struct records_complete {
  std::uint32_t number = 0;
  record_outcome outcome;
};

/// INTERNAL: the time for this gathering is over.
struct records_overdue {
  std::uint32_t number = 0;
};

using record_collector_actor = caf::typed_actor<caf::reacts_to<record_hosts>, caf::reacts_to<host_records>,
                                                caf::reacts_to<record_host_lost>>;

/// To the registry of agents: ask all agents for their records, and pass on the answers.
struct ask_for_records {
  std::uint32_t number = 0;
  record_task task;
  record_collector_actor collector;
};

/// To the registry of agents: the last part of this host is written.
struct record_taken {
  std::string host;
  std::uint32_t number = 0;
};

using record_source_actor = caf::typed_actor<caf::reacts_to<ask_for_records>, caf::reacts_to<record_taken>>;

using record_gatherer_actor = record_collector_actor::extend<
    caf::reacts_to<gather_records>, caf::reacts_to<wait_for_gatherings>, caf::reacts_to<finish_traces>,
    /// From the rendezvous.
    caf::reacts_to<records_wanted>, caf::reacts_to<stall_found>,
    /// From the writer's thread and this actor.
    caf::reacts_to<record_part_written>, caf::reacts_to<records_complete>, caf::reacts_to<records_overdue>,
    caf::reacts_to<traces_ended>, caf::reacts_to<own_traces>,
    /// The launcher ends: call no function of it any more, and end when the writer has nothing to do.
    caf::reacts_to<close_atom>>;

struct record_gatherer_spec {
  std::shared_ptr<worker_records> records; ///< of this host
  record_writer* writer = nullptr;         ///< not null; lives longer than the actor
  record_source_actor agents;              ///< null: the job has no other hosts
  /// Answers a program that has asked for records. Called on the loop.
  std::function<void(const records_answered& answer)> answer;
  /// May be empty. States from the records in the folder what these ranks are doing. Called on the writer's thread.
  record_explainer explain;
  /// Answers the rendezvous, which has found a stall. Called on the loop.
  std::function<void(const stall_explained& explanation)> explained;
};

class record_gatherer_state {
public:
  static inline const char* name = "record gatherer";

  explicit record_gatherer_state(record_gatherer_actor::pointer self) : self_(self) {}

  record_gatherer_actor::behavior_type begin(const record_gatherer_spec& spec);

private:
  void add(gather_records order);
  void wanted(const records_wanted& event);
  void begin_traces(const records_wanted& event);
  void finish(const finish_traces& event);
  void tell_waiting_program(const std::string& problem);
  void explain(const stall_found& stall);
  void start_next();
  void received(const host_records& event);
  void finish_if_complete();
  void completed(const records_complete& event);
  void close();

  record_gatherer_actor::pointer self_;
  record_gatherer_spec spec_;
  std::deque<gather_records> orders_; ///< the first one is being carried out
  std::uint32_t number_ = 0;          ///< of the present gathering
  record_gathering gathering_;
  bool finishing_ = false;               ///< the writer completes the files
  bool awaits_own_ = false;              ///< the traces of this host
  std::unique_ptr<trace_writer> traces_; ///< of this host; null: the job is not traced
  std::uint32_t traces_number_ = 0;      ///< of the gathering that has begun them
  /// Wants to know when they have ended, and which hosts are not traced.
  std::function<void(const std::string& problem, std::vector<std::string> notices)> waiting_program_;
  std::vector<std::string> untraced_;          ///< notices about hosts whose traces have not begun
  std::vector<std::function<void()>> waiters_; ///< to call when no order is left
  bool closing_ = false;
};

record_gatherer_actor::behavior_type
record_gatherer(record_gatherer_actor::stateful_pointer<record_gatherer_state> self,
                const record_gatherer_spec& spec);

} // namespace farandole

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::gather_records)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::wait_for_gatherings)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::finish_traces)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::traces_ended)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::own_traces)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::record_hosts)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::host_records)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::record_host_lost)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::record_part_written)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::records_complete)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::records_overdue)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::ask_for_records)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(farandole::record_taken)
