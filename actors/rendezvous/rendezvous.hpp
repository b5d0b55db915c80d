// Who is in, for the whole job: listens for members, lets elastic/membership decide, and says so. Where the
// process of a slot is watched by a host driver, the exit it reports names the cause of a loss; a link that
// ends by itself waits a moment for it.
//
// With a journal it can be lost: one that is started again knows the job, raises the epoch, and lets members
// come back into the generation that they were in (elastic/journal.hpp). It may run apart from the launcher,
// which then reports its slots by a link (actors/launch/remote_rendezvous.hpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "actors/event_loop/link.hpp"
#include "actors/event_loop/log.hpp"
#include "actors/interfaces/rendezvous.hpp"
#include "elastic/journal.hpp"
#include "elastic/membership.hpp"
#include "elastic/missing_reports.hpp"
#include "elastic/slot_fate.hpp"
#include "messages/settings/settings.hpp"
#include "messages/wire/drain.hpp"

namespace farandole {

struct rendezvous_options {
  membership_rules members;
  farandole::settings settings = farandole::settings::built_in(); ///< whose job-wide values are handed out
  link_settings links;
  std::string bind_ip = "127.0.0.1";
  std::uint16_t port = 0; ///< 0: any free one
  logger* log = nullptr;
  std::shared_ptr<farandole::journal> journal; ///< may be null: then nothing is kept
  bool apart = false;                          ///< the launcher is another process, and comes by a link
  std::uint32_t draw = 0;                      ///< for the epoch; by chance
  /// Names of the hosts of these slots, for people; of any others they are not known.
  std::map<std::int32_t, std::string> hosts = {};
  /// Called on the loop when members obey another rendezvous: this one has said why, and ends.
  std::function<void()> stepped_down;
};

struct rendezvous_service {
  rendezvous_actor actor;
  std::uint16_t port = 0;
};

/// Starts listening. From any thread but the loop's.
expected<rendezvous_service> start_rendezvous(caf::actor_system& system, const rendezvous_options& options);

/// Has more than 30 methods because each message of the 20 that it takes has one; `membership` decides.
struct rendezvous_state {
  static inline const char* name = "rendezvous";

  explicit rendezvous_state(rendezvous_actor::pointer owner) : self(owner), members_({}, 1) {}
  void begin(rendezvous_options options, membership members);

  void listen_by(caf::actor listener) { listener_ = std::move(listener); }
  void exited(const slot_exited& event);
  void started(const slot_started& event);
  void retired(const slot_retired& event);
  void complete();
  void keep_failed(const std::vector<failed_host>& hosts);
  void watched_by(const watch_generations& event);
  void fates_watched_by(const watch_fates& event);
  void answer(const drain_answered& value);
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

  void join(link_id link, const hello& said);
  void await_report_of(link_id link);
  void take_slots(link_id link, const slot_report& said);
  void tell_launcher();
  void tell_all_to_launcher();
  void remember();
  /// Whoever has the secret is believed, as a member has nothing to prove it by: the log names who said it.
  void step_down(link_id link, std::uint64_t epoch);
  void take_delayed_report(link_id link);
  void take_farewell(link_id link, const farewell& said);
  void tell_fate(slot_fate fate);
  void take_leaving(link_id link);
  void tell_of_leaving(std::int32_t slot);
  void take_drain(link_id link, const drain& asked);
  void take_answer(link_id link, draining said);
  void carry_out(const membership_decision& decision);
  void limit_wait();
  void follow(const missing_reports::step& next);
  void admit(const membership_decision& decision);
  void log_start(const membership_decision& decision);
  void tell(link_id link, const envelope& message);
  void refuse(link_id link, const refused& reason);

  rendezvous_actor::pointer self;
  rendezvous_options options_;
  membership members_;
  missing_reports reports_;
  std::unordered_map<link_id, caller> links_;
  caf::actor listener_;
  caf::actor watcher_;                           ///< a generation_watcher_actor; may be null
  caf::actor fate_watcher_;                      ///< a fate_watcher_actor; may be null
  std::uint64_t launcher_ = 0;                   ///< whose slots these are, where it comes by a link
  std::pair<std::uint64_t, std::uint64_t> kept_; ///< revision and launcher that the journal was told last
  link_id launcher_link_ = 0;                    ///< 0: there is none
  std::set<link_id> askers_;                     ///< who wants members out, and hears how it goes
  std::map<link_id, lost> delayed_reports_;      ///< what members said of others, until it is taken
  std::map<link_id, hello> early_;               ///< of slots that the launcher has not reported yet
  std::chrono::steady_clock::time_point gathering_since_{}; ///< no generation has run since
  std::chrono::steady_clock::time_point awaited_until_{};   ///< who has not come by then is given up
  std::uint64_t awaited_generation_ = 0;                    ///< for which this holds
  bool wait_timer_set_ = false;                             ///< a regroup_overdue is under way
  bool running_ = false;                                    ///< a generation, when it was last looked at
  bool closing_ = false;
};

rendezvous_actor::behavior_type rendezvous(rendezvous_actor::stateful_pointer<rendezvous_state> self,
                                           rendezvous_options options, membership members);

} // namespace farandole
