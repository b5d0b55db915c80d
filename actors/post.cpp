#include "actors/post.hpp"

#include <algorithm>
#include <utility>

namespace farandole {

namespace {

constexpr link_id rendezvous_link = 1;
constexpr link_id leader_link = 2;

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

} // namespace

void post_state::begin(post_setup how) {
  setup_ = std::move(how);
  if (!setup_.rendezvous_ip.empty())
    dial(self->system(), setup_.rendezvous_ip, setup_.rendezvous_port, caf::actor_cast<caf::actor>(self),
         rendezvous_link, setup_.links);
}

// ---- out -----------------------------------------------------------------------------------------

void post_state::send(const outbound& what) {
  if (concerns(what, rank_))
    route(what.message);
  if (what.rank == rank_)
    return;
  if (!leads()) {
    // Members speak with the leader only.
    if (auto link = links_.find(leader_link); link != links_.end())
      caf::anon_send(link->second.handle, what.message);
    else if (!closing_)
      for_leader_.push_back(what.message);
    return;
  }
  for (auto& [rank, link] : by_rank_)
    if (concerns(what, rank))
      caf::anon_send(links_.at(link).handle, what.message);
}

bool post_state::concerns(const outbound& what, std::int32_t rank) const {
  if (what.rank >= 0)
    return what.rank == rank;
  auto set = sets_.find(what.message.set());
  if (set == sets_.end())
    return false;
  auto& ranks = set->second.ranks;
  return ranks.empty() || std::binary_search(ranks.begin(), ranks.end(), rank);
}

void post_state::send_to_rendezvous(const envelope& message) {
  if (rendezvous_)
    caf::anon_send(rendezvous_, message);
  else if (!setup_.rendezvous_ip.empty() && !closing_)
    for_rendezvous_.push_back(message);
}

void post_state::enter(const generation_entered& what) {
  generation_ = what.generation;
  rank_ = what.rank;
  auto& leader = what.members.front();
  if (!leads()) {
    std::string ip;
    std::uint16_t port = 0;
    if (split_address(leader.address, ip, port))
      dial(self->system(), ip, port, caf::actor_cast<caf::actor>(self), leader_link, setup_.links);
    else
      self->send(setup_.member,
                 peer_gone{0, "announced the address \"" + leader.address + "\", which is none"});
  }
  enter(what.global);
  for (auto& message : gate_.enter(what.generation))
    take(leader_link, message);
}

void post_state::enter(const set_entered& what) {
  sets_.insert_or_assign(what.number, what);
  for (auto& message : sets_gate_.enter(what.number))
    route(message);
}

void post_state::leave(const set_left& what) {
  sets_gate_.leave(what.number);
  sets_.erase(what.number);
}

void post_state::close() {
  closing_ = true;
  for (auto& [id, link] : links_)
    caf::anon_send(caf::actor_cast<link_actor>(link.handle), close_atom::value);
  if (rendezvous_)
    caf::anon_send(rendezvous_, close_atom::value);
  finish_if_closed();
}

void post_state::finish_if_closed() {
  if (closing_ && links_.empty() && !rendezvous_)
    self->quit();
}

// ---- links ---------------------------------------------------------------------------------------

void post_state::opened(const link_opened& what) {
  if (closing_) {
    caf::anon_send(what.handle, close_atom::value);
    return;
  }
  if (what.link == rendezvous_link) {
    rendezvous_ = what.handle;
    for (auto& message : std::exchange(for_rendezvous_, {}))
      caf::anon_send(rendezvous_, message);
    return;
  }
  auto& entry = links_[what.link];
  entry.handle = what.handle;
  entry.peer = what.peer;
  if (what.link != leader_link)
    return; // it greets first
  entry.rank = 0;
  farandole::address from{generation_, 0, rank_};
  caf::anon_send(entry.handle, encode(from, greeting{wire_version, rank_}));
  for (auto& message : std::exchange(for_leader_, {}))
    caf::anon_send(entry.handle, message);
}

void post_state::closed(const link_closed& what) {
  if (what.link == rendezvous_link) {
    rendezvous_ = nullptr;
    if (!closing_)
      self->send(setup_.member, rendezvous_gone{what.reason});
    return finish_if_closed();
  }
  auto rank = what.link == leader_link ? 0 : -1;
  if (auto link = links_.find(what.link); link != links_.end()) {
    rank = link->second.rank;
    links_.erase(link);
  }
  by_rank_.erase(rank);
  if (!closing_ && rank >= 0)
    self->send(setup_.member, peer_gone{rank, what.reason});
  finish_if_closed();
}

void post_state::drop(link_id link, const std::string& why) {
  auto& entry = links_.at(link);
  if (setup_.log)
    setup_.log->warning("closing the link from " + entry.peer + ": " + why);
  caf::anon_send(entry.handle, close_atom::value);
}

// ---- in ------------------------------------------------------------------------------------------

void post_state::received(const link_received& what) {
  if (what.link == rendezvous_link) {
    self->send(setup_.member, what.message);
    return;
  }
  auto position = links_.find(what.link);
  if (position == links_.end())
    return;
  auto& from = position->second;
  if (from.rank < 0)
    return greet(what.link, from, what.message);
  if (what.message.source() != from.rank)
    return drop(what.link, "a message of rank " + std::to_string(what.message.source()) +
                               " came by the link of rank " + std::to_string(from.rank));
  auto answer = gate_.offer(what.message);
  if (!answer)
    return drop(what.link, answer.error().text);
  if (*answer == generation_gate::answer::pass)
    take(what.link, what.message);
}

// Of the current generation.
void post_state::take(link_id link, const envelope& message) {
  auto answer = sets_gate_.offer(message);
  if (!answer)
    drop(link, answer.error().text);
  else if (*answer == set_gate::answer::pass)
    route(message);
}

void post_state::greet(link_id link, neighbour& from, const envelope& message) {
  auto said = decode_greeting(message);
  if (!said)
    return drop(link, said.error().text);
  if (said->wire_version != wire_version)
    return drop(link, "it speaks wire version " + std::to_string(said->wire_version) + ", this process " +
                          std::to_string(wire_version) + ": start every process with the same Farandole");
  if (said->rank < 0 || by_rank_.count(said->rank))
    return drop(link, "rank " + std::to_string(said->rank) + " is connected already");
  from.rank = said->rank;
  by_rank_[said->rank] = link;
}

// To whom a message of the current generation goes in this process.
void post_state::route(const envelope& message) {
  auto known = sets_.find(message.set());
  if (known == sets_.end())
    return; // this process sent it to itself while the set ended
  auto& set = known->second;
  auto hand = [&](const envelope_actor& taker) {
    if (taker)
      self->send(taker, message);
  };
  switch (message.kind()) {
  case wire::Envelope::Body::REQUESTS:
    return hand(set.negotiator);
  case wire::Envelope::Body::SCHEDULE:
    if (message.source() == 0)
      hand(set.worker);
    return;
  case wire::Envelope::Body::INTRODUCTION:
    return hand(set.introducer);
  case wire::Envelope::Body::INTRODUCTIONS:
    if (message.source() == 0)
      hand(set.mover);
    return;
  default:
    if (setup_.log)
      setup_.log->warning("a message of kind " + std::to_string(static_cast<int>(message.kind())) +
                          " from rank " + std::to_string(message.source()) +
                          " has no place between members; dropped");
  }
}

post_actor::behavior_type post(post_actor::stateful_pointer<post_state> self, post_setup how) {
  auto& state = self->state;
  state.begin(std::move(how));
  return {
      [&state](const outbound& what) { state.send(what); },
      [&state](const outbound_to_rendezvous& what) { state.send_to_rendezvous(what.message); },
      [&state](const generation_entered& what) { state.enter(what); },
      [&state](const set_entered& what) { state.enter(what); },
      [&state](const set_left& what) { state.leave(what); },
      [&state](close_atom) { state.close(); },
      [&state](const link_opened& what) { state.opened(what); },
      [&state](const link_received& what) { state.received(what); },
      [&state](const link_closed& what) { state.closed(what); },
  };
}

} // namespace farandole
