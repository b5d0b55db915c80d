// The launcher's proxy for a rendezvous that runs in another process. It accepts the messages that a host driver
// sends to a rendezvous and forwards them over a link. When the link ends, it dials the rendezvous again, with
// backoff, and then sends its complete state, because messages that were in flight may be lost.
#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <map>
#include <string>

#include "actors/event_loop/link.hpp"
#include "actors/event_loop/log.hpp"
#include "actors/interfaces/slots.hpp"
#include "elastic/reconnect_backoff.hpp"
#include "messages/wire/rendezvous_recovery.hpp"

namespace farandole {

struct remote_rendezvous_spec {
  std::string ip;
  std::uint16_t port = 0;
  link_settings links;
  std::uint64_t job = 1; ///< random id of the job; not 0
  std::chrono::nanoseconds patience{};
  std::string patience_setting; ///< "rendezvous timeout = 3600 s"
  logger* log = nullptr;
};

struct link_closed;
struct link_opened;
struct link_received;
struct watch_stalls;

using call_atom = caf::atom_constant<caf::atom("call")>;
using close_atom = caf::atom_constant<caf::atom("close")>;

using remote_rendezvous_actor = caf::typed_actor<
    /// From the host driver.
    caf::reacts_to<slot_exited>, caf::reacts_to<slot_started>, caf::reacts_to<slot_retired>,
    caf::reacts_to<no_more_starts>, caf::reacts_to<hosts_failed>, caf::reacts_to<drain_answered>,
    caf::reacts_to<watch_records>, caf::reacts_to<records_answered>,
    /// Names the actor that receives new generations. It also receives interrupt_atom with SIGTERM if the rendezvous
    /// will never serve this job.
    caf::reacts_to<watch_generations>,
    /// Ignored: a remote rendezvous reports no fates, and prints stalls without an explanation.
    caf::reacts_to<watch_fates>, caf::reacts_to<watch_stalls>,
    /// INTERNAL: it is time to dial the rendezvous again.
    caf::reacts_to<call_atom>,
    /// Send the queued messages, then end.
    caf::reacts_to<close_atom>,
    /// From links.
    caf::reacts_to<link_opened>, caf::reacts_to<link_received>, caf::reacts_to<link_closed>>;

class remote_rendezvous_state {
public:
  static inline const char* name = "remote rendezvous";

  explicit remote_rendezvous_state(remote_rendezvous_actor::pointer self) : self_(self) {}

  remote_rendezvous_actor::behavior_type begin(const remote_rendezvous_spec& spec);

private:
  void call();
  void changed(std::int32_t slot);
  void report(std::vector<reported_slot> slots);
  void close();
  void opened(const link_opened& event);
  void received(const link_received& event);
  void closed(const link_closed& event);
  void hear_of(const formed& formed);
  void pass_on(const drain& request);
  void answer(const drain_answered& value);
  void pass_on(const write_records& request);
  void answer(const records_answered& value);
  void fail(const std::string& reason);
  void end_job();
  std::string location() const { return spec_.ip + ":" + std::to_string(spec_.port); }

  remote_rendezvous_actor::pointer self_;
  remote_rendezvous_spec spec_;
  std::map<std::int32_t, reported_slot> slots_;
  std::vector<failed_host> failed_hosts_;
  generation_watcher_actor watcher_;
  record_watcher_actor record_watcher_;
  caf::actor link_; ///< null if there is no link
  link_id number_ = 0;
  std::uint64_t epoch_ = 0; ///< the highest epoch of a rendezvous seen so far
  reconnect_backoff calls_;
  bool complete_ = false; ///< no further slot will be started
  bool met_ = false;
  bool closing_ = false;
  bool failed_ = false;
};

remote_rendezvous_actor start_remote_rendezvous(caf::actor_system& system,
                                                const remote_rendezvous_spec& spec);

} // namespace farandole
