#include "actors/member/message_router.hpp"

#include <algorithm>
#include <utility>

#include "actors/event_loop/link_messages.hpp"
#include "messages/wire/membership.hpp"

namespace farandole {

namespace {

constexpr link_id first_rendezvous_link = 1; ///< later links to the rendezvous have ids above parent_link
constexpr link_id parent_link = 2;

bool split_address(const std::string& text, std::string& ip, std::uint16_t& port) {
  auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || text.size() - colon > 6)
    return false;
  auto number = 0ul;
  for (auto digit : text.substr(colon + 1)) {
    if (digit < '0' || digit > '9')
      return false;
    number = number * 10 + static_cast<unsigned long>(digit - '0');
  }
  ip = text.substr(0, colon);
  port = static_cast<std::uint16_t>(number);
  return number > 0 && number < 65536;
}

std::string rank_text(std::int32_t rank) {
  return "rank " + std::to_string(rank);
}

std::string not_below(std::int32_t rank) {
  return rank_text(rank) + " has no business here: it does not speak with the leader by this process";
}

std::string brought_for(std::int32_t source, std::int32_t neighbour) {
  return "a message of rank " + std::to_string(source) + " came by the link of rank " +
         std::to_string(neighbour);
}

std::string because(const std::string& reason) {
  return reason.empty() ? reason : ": " + reason;
}

} // namespace

void message_router_state::begin(message_router_setup setup) {
  setup_ = std::move(setup);
}

void message_router_state::call(const rendezvous_call& rendezvous_message) {
  if (closing_ || rendezvous_)
    return;
  auto links = setup_.links;
  const bool again = rendezvous_link_ != 0;
  if (again)
    links.log = nullptr; // the member logs once that the rendezvous cannot be reached
  rendezvous_link_ = again ? std::max(parent_link, rendezvous_link_) + 1 : first_rendezvous_link;
  first_message_ = rendezvous_message.first_message;
  dial(self->system(), setup_.rendezvous_ip, setup_.rendezvous_port, caf::actor_cast<caf::actor>(self),
       rendezvous_link_, links);
}

// ---- out -----------------------------------------------------------------------------------------

void message_router_state::send(const envelope& message) {
  if (leads())
    return route(message);
  auto set = sets_.find(message.set());
  auto gathers = set != sets_.end() && set->second.actors.relay;
  if (gathers && message.kind() == wire::Envelope::Body::REQUESTS)
    return route(message);
  send_up(message);
}

void message_router_state::send_up(const envelope& message) {
  if (auto link = links_.find(parent_link); link != links_.end())
    caf::anon_send(link->second.handle, message);
  else if (!closing_)
    for_parent_.push_back(message);
}

// Sends a message to the children that lead to its target or, without a target, to members of its set.
void message_router_state::send_down(const envelope& message) {
  if (message.target() >= 0)
    return send_down(tree_->branch(rank_, message.target()), message);
  for (auto child : sets_.at(message.set()).below)
    send_down(child, message);
}

void message_router_state::send_down(std::int32_t child, const envelope& message) {
  if (auto link = by_rank_.find(child); link != by_rank_.end())
    caf::anon_send(links_.at(link->second).handle, message);
}

void message_router_state::send_to_rendezvous(const envelope& message) {
  if (rendezvous_)
    caf::anon_send(rendezvous_, message);
  else if (!setup_.rendezvous_ip.empty() && !closing_)
    for_rendezvous_.push_back(message);
}

// Returns null if there is no open link to this neighbour.
caf::actor message_router_state::link_to(std::int32_t neighbour) const {
  auto link = parent_link;
  if (!tree_ || tree_->parent(rank_) != neighbour) {
    const auto position = by_rank_.find(neighbour);
    if (position == by_rank_.end())
      return {};
    link = position->second;
  }
  const auto found = links_.find(link);
  return found == links_.end() ? caf::actor{} : found->second.handle;
}

void message_router_state::send(const neighbour_message& event) {
  if (auto link = link_to(event.rank))
    caf::anon_send(link, event.message);
}

void message_router_state::give_up(const neighbours_given_up& event) {
  for (auto rank : event.ranks)
    if (auto link = link_to(rank))
      caf::anon_send(caf::actor_cast<link_actor>(link), cut_atom::value);
}

void message_router_state::enter(const generation_entered& event) {
  generation_ = event.generation;
  rank_ = event.rank;
  tree_ = event.tree;
  heartbeats_ = event.heartbeats;
  if (auto above = tree_->parent(rank_); above >= 0) {
    auto& parent = event.members[static_cast<std::size_t>(above)];
    std::string ip;
    std::uint16_t port = 0;
    if (split_address(parent.address, ip, port))
      dial(self->system(), ip, port, caf::actor_cast<caf::actor>(self), parent_link, setup_.links);
    else
      self->send(setup_.member,
                 peer_gone{above, "announced the address \"" + parent.address + "\", which is none"});
  }
  for (auto& [id, link] : links_)
    if (link.rank >= 0 && tree_->branch(rank_, link.rank) != link.rank) {
      // The peer claimed a rank that is not a child of this member, so the claim is false.
      const auto claimed = std::exchange(link.rank, -1);
      by_rank_.erase(claimed);
      drop(id, not_below(claimed));
    }
  const auto early = gate_.enter_generation(event.generation);
  enter(event.global);
  take_early(early);
}

// Checks messages that arrived before this generation. Only with the relay tree it is known which sources each link
// may carry. If a link carried messages of a source that is not below it, all held messages of that source are
// discarded, and the link is dropped, which ends the generation. Entries of earlier generations are skipped: their
// links are gone, and they are no evidence against a member.
void message_router_state::take_early(const std::vector<envelope>& messages) {
  std::set<std::int32_t> forged;
  for (const auto& [generation, source, id] : std::exchange(early_sources_, {})) {
    if (generation != generation_)
      continue;
    const auto link = links_.find(id);
    if (link != links_.end() && link->second.rank >= 0 && tree_->below(link->second.rank, source))
      continue;
    forged.insert(source);
    if (link != links_.end() && link->second.rank >= 0)
      drop(id, brought_for(source, link->second.rank));
  }
  for (const auto& message : messages) {
    const auto child = tree_->branch(rank_, message.source());
    const auto link = by_rank_.find(child);
    if (link == by_rank_.end() || links_.at(link->second).dropped || forged.count(message.source()))
      continue;
    if (const auto reason = objection(child, message); !reason.empty())
      drop(link->second, reason);
    else
      take(link->second, message);
  }
}

void message_router_state::enter(const set_entered& event) {
  auto& entry = sets_[event.number];
  entry.actors = event;
  auto below = tree_->children(rank_);
  entry.below.assign(below.begin(), below.end());
  if (!event.ranks.empty())
    std::erase_if(entry.below, [&](auto child) {
      return std::none_of(event.ranks.begin(), event.ranks.end(),
                          [&](auto rank) { return tree_->below(child, rank); });
    });
  for (auto& message : gate_.enter_set(event.number))
    route(message);
}

void message_router_state::leave(const set_left& event) {
  gate_.leave_set(event.number);
  sets_.erase(event.number);
}

void message_router_state::close() {
  closing_ = true;
  for (auto& [id, link] : links_)
    caf::anon_send(caf::actor_cast<link_actor>(link.handle), close_atom::value);
  if (rendezvous_)
    caf::anon_send(rendezvous_, close_atom::value);
  finish_if_closed();
}

void message_router_state::finish_if_closed() {
  if (closing_ && links_.empty() && !rendezvous_)
    self->quit();
}

// ---- links ---------------------------------------------------------------------------------------

void message_router_state::opened(const link_opened& event) {
  if (closing_) {
    caf::anon_send(event.handle, close_atom::value);
    return;
  }
  if (event.link == rendezvous_link_) {
    rendezvous_ = event.handle;
    log_link("the rendezvous", event.peer, "is up");
    caf::anon_send(rendezvous_, first_message_);
    for (auto& message : std::exchange(for_rendezvous_, {}))
      caf::anon_send(rendezvous_, message);
    return;
  }
  auto& entry = links_[event.link];
  entry.handle = event.handle;
  entry.peer = event.peer;
  if (event.link != parent_link)
    return; // the dialling member sends the first message, a greeting
  entry.rank = tree_->parent(rank_);
  record(event_kind::link_up, entry.rank);
  log_link(rank_text(entry.rank), entry.peer, "is up");
  farandole::address from{generation_, 0, rank_};
  caf::anon_send(entry.handle, encode(from, greeting{wire_version, rank_}));
  for (auto& message : std::exchange(for_parent_, {}))
    caf::anon_send(entry.handle, message);
}

void message_router_state::closed(const link_closed& event) {
  if (event.link == rendezvous_link_) {
    const bool opened = std::exchange(rendezvous_, nullptr) != nullptr;
    if (opened)
      log_link("the rendezvous", setup_.rendezvous_ip + ":" + std::to_string(setup_.rendezvous_port),
               "is down" + because(event.reason));
    if (!closing_)
      self->send(setup_.member, rendezvous_gone{event.reason, event.untrusted, opened});
    return finish_if_closed();
  }
  auto rank = event.link == parent_link ? tree_->parent(rank_) : -1;
  if (auto link = links_.find(event.link); link != links_.end()) {
    if (link->second.rank >= 0)
      log_link(rank_text(link->second.rank), link->second.peer, "is down" + because(event.reason));
    rank = link->second.dropped ? -1 : link->second.rank; // drop() has told the member already
    by_rank_.erase(link->second.rank);
    links_.erase(link);
  }
  if (rank >= 0)
    record(event_kind::link_down, rank, event.reason);
  if (!closing_ && rank >= 0)
    self->send(setup_.member, peer_gone{rank, event.reason});
  finish_if_closed();
}

void message_router_state::record(event_kind kind, std::int32_t rank, const std::string& reason) const {
  if (setup_.recorder)
    setup_.recorder->record(kind, setup_.recorder->intern_reason(reason), 0, 0,
                            static_cast<std::uint64_t>(rank));
}

void message_router_state::log_link(const std::string& peer, const std::string& address,
                                    const std::string& event) const {
  if (setup_.log)
    setup_.log->debug("the link with " + peer + " at " + address + " " + event);
}

void message_router_state::drop(link_id link, const std::string& reason) {
  auto& entry = links_.at(link);
  if (std::exchange(entry.dropped, true))
    return;
  if (setup_.log)
    setup_.log->warning("closing the link from " + entry.peer +
                        (entry.rank >= 0 ? " (rank " + std::to_string(entry.rank) + ")" : "") + ": " +
                        reason);
  caf::anon_send(entry.handle, close_atom::value);
  if (!closing_ && entry.rank >= 0)
    self->send(setup_.member, peer_gone{entry.rank, reason});
}

// ---- in ------------------------------------------------------------------------------------------

void message_router_state::received(const link_received& event) {
  if (event.link == rendezvous_link_) {
    self->send(setup_.member, event.message);
    return;
  }
  auto position = links_.find(event.link);
  if (position == links_.end() || position->second.dropped)
    return;
  auto& from = position->second;
  if (from.rank < 0)
    return greet(event.link, from, event.message);
  if (const auto kind = event.message.kind();
      kind == wire::Envelope::Body::HEARTBEAT || kind == wire::Envelope::Body::CLOCK)
    return hear_heartbeat(event.link, event.message);
  if (const auto reason = tree_ ? objection(from.rank, event.message) : std::string(); !reason.empty())
    return drop(event.link, reason);
  take(event.link, event.message);
}

// A heartbeat of another generation is obsolete. Heartbeats and readings of clocks are exchanged only between neighbours
// and are never forwarded.
void message_router_state::hear_heartbeat(link_id link, const envelope& message) {
  const auto rank = links_.at(link).rank;
  if (message.source() != rank)
    return drop(link, "a heartbeat of rank " + std::to_string(message.source()) +
                          " came by the link of rank " + std::to_string(rank));
  if (message.generation() == generation_ && heartbeats_)
    self->send(heartbeats_, message);
}

// The link to the member above may carry only messages of the leader; a link to a child only messages of members
// below it.
std::string message_router_state::objection(std::int32_t neighbour, const envelope& message) const {
  using body = wire::Envelope::Body;
  const auto kind = message.kind();
  const bool above = neighbour == tree_->parent(rank_);
  if (above ? message.source() != 0 : !tree_->below(neighbour, message.source()))
    return brought_for(message.source(), neighbour);
  if (above ? kind == body::SCHEDULE || kind == body::MEMBER_PATH_ADDRESSES
            : kind == body::REQUESTS || kind == body::GATHERED || kind == body::PATH_ADDRESSES)
    return {};
  return "a message of kind " + std::to_string(static_cast<int>(kind)) + " from rank " +
         std::to_string(message.source()) + " has no place between members";
}

void message_router_state::take(link_id link, const envelope& message) {
  auto answer = gate_.offer(message);
  if (!answer)
    drop(link, answer.error().text);
  else if (*answer == message_gate::answer::pass)
    route(message);
  else if (*answer == message_gate::answer::held && !tree_)
    early_sources_.insert({message.generation(), message.source(), link});
}

void message_router_state::greet(link_id link, neighbour& from, const envelope& message) {
  auto decoded = decode_greeting(message);
  if (!decoded)
    return drop(link, decoded.error().text);
  if (decoded->wire_version != wire_version)
    return drop(link, "it speaks wire version " + std::to_string(decoded->wire_version) + ", this process " +
                          std::to_string(wire_version) + ": start every process with the same Farandole");
  if (const auto held = by_rank_.find(decoded->rank); held != by_rank_.end())
    return drop(link, "rank " + std::to_string(decoded->rank) + " is connected already, from " +
                          links_.at(held->second).peer);
  if (decoded->rank < 0 || (tree_ && tree_->branch(rank_, decoded->rank) != decoded->rank))
    return drop(link, not_below(decoded->rank));
  from.rank = decoded->rank;
  by_rank_[decoded->rank] = link;
  record(event_kind::link_up, decoded->rank);
  log_link(rank_text(from.rank), from.peer, "is up");
}

// Delivers a message of the current generation to the actor in this process that handles it, and forwards it in the
// relay tree.
void message_router_state::route(const envelope& message) {
  auto found = sets_.find(message.set());
  if (found == sets_.end())
    return; // this process sent it to itself, and the set has ended in the meantime
  auto& set = found->second.actors;
  auto hand = [&](const envelope_actor& taker) {
    if (taker)
      self->send(taker, message);
  };
  auto from_leader = message.source() == 0;
  auto present = message.target() < 0 || message.target() == rank_;
  switch (message.kind()) {
  case wire::Envelope::Body::REQUESTS:
  case wire::Envelope::Body::GATHERED:
    return hand(leads() ? set.negotiator : set.relay);
  case wire::Envelope::Body::PATH_ADDRESSES:
    return leads() ? hand(set.address_exchange) : send_up(message);
  case wire::Envelope::Body::SCHEDULE:
    if (from_leader && present)
      hand(set.set_client);
    // The relay of this process must learn which cached ids were discarded before the members below it learn that.
    if (from_leader && message.target() < 0)
      hand(set.relay);
    return from_leader ? send_down(message) : void();
  case wire::Envelope::Body::MEMBER_PATH_ADDRESSES:
    if (from_leader && present)
      hand(set.connector);
    return from_leader ? send_down(message) : void();
  default:
    return; // objection() has refused all other kinds
  }
}

message_router_actor::behavior_type
message_router(message_router_actor::stateful_pointer<message_router_state> self,
               message_router_setup setup) {
  auto& state = self->state;
  state.begin(std::move(setup));
  return {
      [&state](const envelope& message) { state.send(message); },
      [&state](const rendezvous_message& outbound_to_rendezvous) {
        state.send_to_rendezvous(outbound_to_rendezvous.message);
      },
      [&state](const neighbour_message& event) { state.send(event); },
      [&state](const neighbours_given_up& event) { state.give_up(event); },
      [&state](const rendezvous_call& rendezvous_message) { state.call(rendezvous_message); },
      [&state](const generation_entered& event) { state.enter(event); },
      [&state](const set_entered& event) { state.enter(event); },
      [&state](const set_left& event) { state.leave(event); },
      [&state](close_atom) { state.close(); },
      [&state](const link_opened& event) { state.opened(event); },
      [&state](const link_received& event) { state.received(event); },
      [&state](const link_closed& event) { state.closed(event); },
  };
}

} // namespace farandole
