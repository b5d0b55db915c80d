// The rendezvous of a job: the service that accepts members and announces the membership. elastic/membership makes
// the decisions. If a host driver watches the process of a slot, its exit report names the cause of a loss. So when a
// link ends, the rendezvous waits a moment for that report.
//
// With a journal (elastic/journal.hpp) the rendezvous may fail and be restarted. The new one reads the job from the
// journal, raises the epoch, and lets members return to the generation that they were in. The rendezvous may run in a
// process of its own; then the launcher reports its slots over a link (actors/launch/remote_rendezvous.hpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "actors/event_loop/link.hpp"
#include "actors/event_loop/log.hpp"
#include "actors/interfaces/rendezvous.hpp"
#include "actors/interfaces/slots.hpp"
#include "actors/interfaces/stalls.hpp"
#include "elastic/journal.hpp"
#include "elastic/membership.hpp"
#include "elastic/missing_reports.hpp"
#include "elastic/slot_fate.hpp"
#include "elastic/stall_reports.hpp"
#include "messages/settings/settings.hpp"
#include "messages/wire/drain.hpp"

namespace farandole {

struct rendezvous_options {
  membership_rules members;
  farandole::settings settings = farandole::settings::built_in(); ///< members receive the job-wide values
  link_settings links;
  std::vector<std::string> bind_ips = {"127.0.0.1"}; ///< all with one port
  std::uint16_t port = 0;                            ///< 0: any free port
  logger* log = nullptr;
  std::shared_ptr<farandole::journal> journal; ///< may be null: then the state is not persistent
  bool apart = false;                          ///< the launcher is another process and connects by a link
  std::uint32_t draw = 0;                      ///< random part of the epoch
  /// Called on the loop when the members obey another rendezvous. This one has logged the reason and ends.
  std::function<void()> stepped_down;
};

struct rendezvous_service {
  rendezvous_actor actor;
  std::uint16_t port = 0;
};

/// Starts the rendezvous and its listener. May be called from any thread except the loop's.
expected<rendezvous_service> start_rendezvous(caf::actor_system& system, const rendezvous_options& options);

/// Has more than 30 methods, because there is one for each of the 24 messages. `membership` makes the decisions.
struct rendezvous_state {
  static inline const char* name = "rendezvous";

  explicit rendezvous_state(rendezvous_actor::pointer owner) : self(owner), members_({}, 1) {}
  void begin(rendezvous_options options, membership members);

  void listen_by(const caf::actor& listener) { listeners_.push_back(listener); }
  void exited(const slot_exited& event);
  void started(const slot_started& event);
  void retired(const slot_retired& event);
  void complete();
  void keep_failed(const std::vector<failed_host>& hosts);
  void watched_by(const watch_generations& event);
  void fates_watched_by(const watch_fates& event);
  void stalls_watched_by(const watch_stalls& event);
  void take_explanation(const stall_explained& event);
  void miss_explanation(const stall_unexplained& event);
  void check_stalls();
  void answer(const drain_answered& value);
  void records_watched_by(const watch_records& event) { record_watcher_ = event.process; }
  void answer(const records_answered& value);
  void overdue();
  void tell_missing();
  void stayed_down(const link_stayed_down& event);
  void take_unreported(link_id link);
  void take_report(const member_reported& event);
  void close();
  void opened(const link_opened& event);
  void received(const link_received& event);
  void closed(const link_closed& event);

private:
  struct caller {
    caf::actor handle;
    std::string peer;
  };

  void join(link_id link, const hello& decoded);
  void await_report_of(link_id link);
  void take_slots(link_id link, const slot_report& decoded);
  void tell_launcher();
  void tell_all_to_launcher();
  void remember();
  /// Ends this rendezvous, because the sender has seen one with a higher epoch (fencing). A member cannot prove that
  /// claim, so every process with the secret is believed, and the log names the sender.
  void step_down(link_id link, std::uint64_t epoch);
  void take_delayed_report(link_id link);
  void take_farewell(link_id link, const farewell& decoded);
  void tell_fate(slot_fate fate);
  void take_leaving(link_id link);
  void tell_of_leaving(std::int32_t slot);
  void take_drain(link_id link, const drain& asked);
  void take_answer(link_id link, draining decoded);
  void take_records_request(link_id link, const write_records& request);
  void take_records_answer(link_id link, records_written decoded);
  /// Whether a program with this wire version may ask for something; otherwise refuses it.
  bool accept_asker(link_id link, std::uint32_t version);
  void carry_out(const membership_decision& decision);
  void limit_wait();
  void follow(const missing_reports::step& next);
  std::optional<std::int32_t> rank_of(link_id link) const;
  void take_stalls(link_id link, const envelope& message);
  void forget_stalls(link_id link);
  void forget_stalls();
  void follow(stall_reports::step next);
  void publish_waiting_stall(const std::string& lines);
  void publish(const stall_report& report);
  void admit(const membership_decision& decision);
  void log_start(const membership_decision& decision);
  void send(link_id link, const envelope& message);
  void refuse(link_id link, const refused& reason);

  rendezvous_actor::pointer self;
  rendezvous_options options_;
  membership members_;
  missing_reports reports_;
  std::unordered_map<link_id, caller> links_;
  std::vector<caf::actor> listeners_;
  caf::actor watcher_;         ///< a generation_watcher_actor; may be null
  caf::actor fate_watcher_;    ///< a fate_watcher_actor; may be null
  caf::actor stall_explainer_; ///< a stall_explainer_actor; may be null
  stall_reports stalls_;
  std::optional<stall_report> waiting_stall_;    ///< waits for its explanation
  std::uint64_t stall_number_ = 0;               ///< of the last report that the explainer was sent
  std::uint64_t launcher_ = 0;                   ///< id of the job of a launcher that connects by a link
  std::pair<std::uint64_t, std::uint64_t> kept_; ///< revision and launcher that the journal has recorded
  link_id launcher_link_ = 0;                    ///< 0: the launcher has no link
  record_watcher_actor record_watcher_;          ///< may be null
  std::set<link_id> askers_;                     ///< links of programs that wait for answers
  std::map<link_id, lost> delayed_reports_;      ///< reports about other members, until they are handled
  std::map<link_id, hello> early_;               ///< hellos of slots that the launcher has not reported yet
  std::chrono::steady_clock::time_point gathering_since_{}; ///< end of the last generation, or the start
  std::chrono::steady_clock::time_point awaited_until_{};   ///< deadline for members to return
  std::uint64_t awaited_generation_ = 0;                    ///< the generation to which the deadline belongs
  bool wait_timer_set_ = false;                             ///< a regroup_overdue message is pending
  bool running_ = false;                                    ///< a generation was running at the last check
  bool closing_ = false;
};

rendezvous_actor::behavior_type rendezvous(rendezvous_actor::stateful_pointer<rendezvous_state> self,
                                           rendezvous_options options, membership members);

} // namespace farandole
