// Who is reached by which link. The post of a member owns its links: to the rendezvous, to the member above
// it and to those directly below it, as the tree of relays says. It checks what comes in against the link
// that it came by, drops what is stale, holds what is early, and hands the rest to whom it concerns in this
// process.
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

namespace farandole {

struct link_closed;
struct link_opened;
struct link_received;

struct message_router_setup {
  member_actor member;
  link_settings links;
  std::string rendezvous_ip; ///< empty: a job of one
  std::uint16_t rendezvous_port = 0;
  logger* log = nullptr;
};

struct message_router_state {
  static inline const char* name = "post";

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
  struct neighbour {
    caf::actor handle;
    std::int32_t rank = -1; ///< -1 until it has greeted
    std::string peer;
    bool dropped = false; ///< for what it sent; it is closed soon, and nothing more is taken from it
  };

  /// A process set as it is known here.
  struct known_set {
    set_entered actors;
    std::vector<std::int32_t> below; ///< children that are members, or lead to some
  };

  bool leads() const { return rank_ == 0; }
  caf::actor link_to(std::int32_t neighbour) const;
  void hear_heartbeat(link_id link, const envelope& message);
  void take(link_id link, const envelope& message);
  void route(const envelope& message);
  void send_up(const envelope& message);
  void send_down(const envelope& message);
  void send_down(std::int32_t child, const envelope& message);
  /// Why this neighbour may not send this message; empty: it may.
  std::string objection(std::int32_t neighbour, const envelope& message) const;
  void take_early(const std::vector<envelope>& messages);
  void greet(link_id link, neighbour& from, const envelope& message);
  void drop(link_id link, const std::string& reason);
  void finish_if_closed();

  message_router_actor::pointer self;
  message_router_setup setup_;
  std::uint64_t generation_ = 0;
  std::int32_t rank_ = -1;
  caf::actor rendezvous_;
  link_id rendezvous_link_ = 0;          ///< of the last call; what comes by an earlier one is dropped
  envelope path_addresses_;              ///< what the next link to it begins with
  std::vector<envelope> for_rendezvous_; ///< until its link is up
  std::vector<envelope> for_parent_;     ///< likewise
  std::map<link_id, neighbour> links_;
  std::map<std::int32_t, link_id> by_rank_;
  message_gate gate_;
  struct early_source {
    std::uint64_t generation = 0; ///< of the messages
    std::int32_t rank = -1;       ///< that they name as their source
    link_id link = 0;             ///< by which they came

    friend auto operator<=>(const early_source&, const early_source&) = default;
  };
  std::set<early_source> early_sources_; ///< of messages that the gate has held since before there was a tree
  std::map<std::uint32_t, known_set> sets_; ///< by number
  std::shared_ptr<const relay_tree> tree_;  ///< from the generation's start
  envelope_actor heartbeats_;               ///< likewise; may be null
  bool closing_ = false;
};

message_router_actor::behavior_type
message_router(message_router_actor::stateful_pointer<message_router_state> self, message_router_setup setup);

} // namespace farandole
