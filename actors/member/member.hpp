// The root actor of a member. It sends hello to the rendezvous, starts the actors of the generation when it receives
// the welcome, and ends them when the generation ends. It distinguishes a departure in order from the loss of a
// member.
//
//   hello ─▶ joining ─(paths connected)─▶ in ─(shutdown of any member)─▶ leaving ─▶ out
//                                          └─(member lost, component failed)──────▶ out
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/event_loop/clock.hpp"
#include "actors/event_loop/link.hpp"
#include "actors/event_loop/log.hpp"
#include "actors/interfaces/generation.hpp"
#include "actors/interfaces/heartbeats.hpp"
#include "actors/interfaces/lane.hpp"
#include "actors/interfaces/member.hpp"
#include "actors/interfaces/message_router.hpp"
#include "actors/interfaces/process_sets.hpp"
#include "actors/interfaces/set_client.hpp"
#include "actors/interfaces/stalls.hpp"
#include "actors/member/stall_report_queue.hpp"
#include "actors/process_set/shared_state.hpp"
#include "elastic/join_deadline.hpp"
#include "elastic/reconnect_backoff.hpp"
#include "elastic/stall_reports.hpp"
#include "elastic/stuck_rules.hpp"
#include "messages/settings/settings.hpp"
#include "messages/wire/membership.hpp"
#include "messages/wire/rendezvous_recovery.hpp"

namespace farandole {

struct set_setup;

struct member_setup {
  std::shared_ptr<shared_member_state> shared;
  farandole::settings settings = farandole::settings::built_in();
  hello own_hello; ///< describes this process to the rendezvous
  /// The highest epoch of a rendezvous that this process has obeyed. Other threads read it.
  std::shared_ptr<std::atomic<std::uint64_t>> obeyed = std::make_shared<std::atomic<std::uint64_t>>(0);
  /// The deadline of the thread that waits until this process is a member. The member pauses and resumes it.
  std::shared_ptr<join_deadline> deadline = std::make_shared<join_deadline>();
  /// Receives the reports of stalls, for the program. Not null.
  std::shared_ptr<stall_report_queue> stalls = std::make_shared<stall_report_queue>();
  std::string secret;
  std::string rendezvous_ip; ///< empty: a job with one member
  std::uint16_t rendezvous_port = 0;
  link_settings links;
  std::string bind_ip; ///< address at which other members reach this one
  logger* log = nullptr;
  /// Simulation only: replaces the components that would block or move data.
  std::function<void(set_setup&)> simulate = {};
  /// False only in the simulation, which waits until no message is pending: a periodic timer would prevent that.
  bool heartbeats = true;
};

/// Has more than 30 methods, because there is one for each message and for each event of the rendezvous protocol.
struct member_state {
  static inline const char* name = "member";

  explicit member_state(member_actor::pointer owner) : self(owner) {}
  void begin(member_setup setup);

  void receive(const envelope& message);
  void lost_rendezvous(const rendezvous_gone& event);
  void call_rendezvous();
  void lost_peer(const peer_gone& event);
  void connected();
  void broke(const std::string& reason, error_kind kind = error_kind::unknown);
  void faulted(const member_fault& event);
  void hear_of_silence(const processes_silent& report);
  void held_up(const operations_held_up& event);
  void notice_stalls(const stalls_noticed& event);
  void leave(departure manner);
  void withdraw();
  void ended_in_order(const generation_ended& event);
  void drained();
  void deadline();
  void down(const caf::down_msg& down_message);
  void take_down(const caf::error& reason);

private:
  enum class stage : std::uint8_t { joining, in, leaving, out };

  void welcomed(const welcome& greeting);
  void resumed_by(const resumed& event);
  void refused_by(const refused& refusal);
  void awaits(const awaited& missing);
  void look_for_rendezvous(const std::string& location, const std::string& reason);
  /// Fencing by epoch. Returns false if `epoch` is older than that of a rendezvous that this process has obeyed; then
  /// the sender is told that it was superseded.
  bool obeys(std::uint64_t epoch);
  void warn_of_unprotected_path();
  void start_generation();
  void lost_member(const lost& loss);
  void warned(const changed& changed);
  bool elastic() const { return setup_.settings.flag(setting::elastic); }
  void fail_start(error reason);
  /// `in_order`: messages that were sent already must still reach the other members.
  void end_generation(const error& reason, bool in_order = false);
  void suspect(lost loss);
  void report(const lost& loss);
  void start_heartbeats();
  void give_up_neighbours(bool in_order);
  void leave_if_done();
  void say_farewell();
  void fail_operations();

  member_actor::pointer self;
  member_setup setup_;
  stage stage_ = stage::joining;
  struct {
    bool start = false;
    bool end = false;
    bool farewell = false;
    std::string refusal;                  ///< text of the last logged refusal
  } notified_;                            ///< notifications that were sent already; each is sent once
  std::optional<generation_ended> ended_; ///< the generation ended in order; kept while joining
  int undrained_ = 2;                     ///< leaving: the global set's lane, and all other sets as one
  instant leave_until_{};                 ///< leaving: deadline for waiting for other members
  std::uint64_t generation_ = 0;
  message_router_actor router_;
  caf::actor listener_;
  caf::actor tree_; ///< the supervisor of the generation's actors
  process_set_manager_actor sets_;
  set_client_actor client_;
  path_connector_actor connector_;
  std::set<std::int32_t> still_linked_; ///< members below in the relay tree whose links are open
  lost suspect_;                        ///< suspected loss that the rendezvous has not confirmed yet
  error failure_; ///< why actors of the generation are gone; set until its operations have failed
  stuck_rules stuck_;
  heartbeats_actor heartbeats_;  ///< may be null
  reconnect_backoff calls_;      ///< for dialling a rendezvous that cannot be reached
  bool rendezvous_away_ = false; ///< the link to the rendezvous has ended, and it has not come back
  stall_reports own_stalls_;     ///< while the rendezvous is away
};

member_actor::behavior_type member_root(member_actor::stateful_pointer<member_state> self,
                                        member_setup setup);

} // namespace farandole
