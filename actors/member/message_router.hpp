// The message router of a member. It owns the member's links: to the rendezvous, to the member above it and to the
// members directly below it in the relay tree. For each received message it checks that the link may carry messages
// of that source. It drops messages of earlier generations, holds messages of later ones, and delivers the rest to
// the responsible actor in this process.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/event_loop/link.hpp"
#include "actors/event_loop/log.hpp"
#include "actors/interfaces/member.hpp"
#include "actors/interfaces/message_router.hpp"
#include "collectives/negotiation/message_gate.hpp"
#include "messages/record/event_recorder.hpp"

namespace farandole {

struct link_closed;
struct link_opened;
struct link_received;

struct message_router_setup {
  member_actor member;
  link_settings links;
  std::string rendezvous_ip; ///< empty: a job with one member
  std::uint16_t rendezvous_port = 0;
  logger* log = nullptr;
  std::shared_ptr<event_recorder> recorder = nullptr; ///< may be null
};

struct message_router_state {
  static inline const char* name = "message_router";

  explicit message_router_state(message_router_actor::pointer owner) : self(owner) {}
  void begin(message_router_setup setup);

  void send(const envelope& message);
  void send_to_rendezvous(const envelope& message);
  void send(const neighbour_message& event);
  void give_up(const neighbours_given_up& event);
  void call(const rendezvous_call& rendezvous_message);
  void enter(const generation_entered& event);
  void enter(const set_entered& event);
  void leave(const set_left& event);
  void close();
  void opened(const link_opened& event);
  void received(const link_received& event);
  void closed(const link_closed& event);

private:
  void record(event_kind kind, std::int32_t rank, const std::string& reason = {}) const;
  struct neighbour {
    caf::actor handle;
    std::int32_t rank = -1; ///< -1 until its greeting has arrived
    std::string peer;
    bool dropped = false; ///< it sent an invalid message: the link is closing, and its messages are ignored
  };

  /// A process set that has started on this member.
  struct known_set {
    set_entered actors;
    std::vector<std::int32_t> below; ///< children that are members of the set or lead to members
  };

  bool leads() const { return rank_ == 0; }
  caf::actor link_to(std::int32_t neighbour) const;
  void hear_heartbeat(link_id link, const envelope& message);
  void take(link_id link, const envelope& message);
  void route(const envelope& message);
  void send_up(const envelope& message);
  void send_down(const envelope& message);
  void send_down(std::int32_t child, const envelope& message);
  /// Returns why this neighbour must not send this message, or an empty string.
  std::string objection(std::int32_t neighbour, const envelope& message) const;
  void take_early(const std::vector<envelope>& messages);
  void greet(link_id link, neighbour& from, const envelope& message);
  void drop(link_id link, const std::string& reason);
  void log_link(const std::string& peer, const std::string& address, const std::string& event) const;
  void finish_if_closed();

  message_router_actor::pointer self;
  message_router_setup setup_;
  std::uint64_t generation_ = 0;
  std::int32_t rank_ = -1;
  caf::actor rendezvous_;
  link_id rendezvous_link_ = 0;          ///< id of the last link to the rendezvous; earlier ones are ignored
  envelope first_message_;               ///< first message on the next link to the rendezvous
  std::vector<envelope> for_rendezvous_; ///< queued until the link to the rendezvous is open
  std::vector<envelope> for_parent_;     ///< queued until the link to the member above is open
  std::map<link_id, neighbour> links_;
  std::map<std::int32_t, link_id> by_rank_;
  message_gate gate_;
  struct early_source {
    std::uint64_t generation = 0; ///< generation of the messages
    std::int32_t rank = -1;       ///< source rank in the messages
    link_id link = 0;             ///< link on which they arrived

    friend auto operator<=>(const early_source&, const early_source&) = default;
  };
  std::set<early_source> early_sources_;    ///< sources of messages that the gate holds from before the start
  std::map<std::uint32_t, known_set> sets_; ///< by number
  std::shared_ptr<const relay_tree> tree_;  ///< set when the generation starts
  envelope_actor heartbeats_;               ///< set when the generation starts; may be null
  bool closing_ = false;
};

message_router_actor::behavior_type
message_router(message_router_actor::stateful_pointer<message_router_state> self, message_router_setup setup);

} // namespace farandole
