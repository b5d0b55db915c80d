// The listener of link.hpp. It carries out the decisions of connections/handshake_table.hpp.
#include "actors/event_loop/clock.hpp"
#include "actors/event_loop/link_messages.hpp"
#include "actors/event_loop/link_parts.hpp"
#include "collectives/transport/connections/handshake_table.hpp"
#include "collectives/transport/connections/sockets.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace farandole {

namespace {

using resume_atom = caf::atom_constant<caf::atom("resume")>;
using hello_atom = caf::atom_constant<caf::atom("hello")>;
using due_atom = caf::atom_constant<caf::atom("due")>;

constexpr int accepts_per_turn = 64;

struct listener_start {
  std::shared_ptr<descriptor> socket;
  caf::actor owner;
  link_settings settings;
};

class listener_state {
public:
  static inline const char* name = "listener";

  explicit listener_state(caf::event_based_actor* self) : self_(self) {}

  void begin(const listener_start& start) {
    start_ = start;
    limits_ = start_.settings.handshakes.within(descriptors_allowed());
    table_ = handshake_table{limits_};
    watch_ = watch_for(self_, std::move(*start_.socket));
  }

  void readable() {
    for (int i = 0; i < accepts_per_turn; ++i) {
      auto accepted = accept_one(watch_.get());
      if (accepted.socket)
        admit(std::move(accepted));
      else if (must_pause_accepting(accepted.error))
        return pause(accepted.error);
      else if (accepted.error != ECONNABORTED)
        break;
    }
    serve();
  }

  /// More bytes of the connection's first TLS record have arrived, or the peer has closed it.
  void heard(link_id which) {
    auto found = connections_.find(which);
    if (found == connections_.end() || !found->second.waiting)
      return;
    const auto state = look_for_first_record(found->second.waiting.get());
    if (state == first_record::gone)
      return drop(which, "the peer hung up before the link was open");
    if (state == first_record::missing)
      return;
    // Duplicate the descriptor: the watch keeps its own, and the link needs one that it can watch itself.
    found->second.whole = descriptor{::fcntl(found->second.waiting.get(), F_DUPFD_CLOEXEC, 0)};
    const int problem = errno;
    found->second.waiting.stop();
    if (!found->second.whole)
      return drop(which, "cannot serve it: " + text_of_errno(problem));
    table_.ready(which);
    serve();
  }

  void settled(link_id which) {
    table_.remove(which);
    connections_.erase(which);
    serve();
  }

  void due(std::int64_t when) {
    if (!timer_ || timer_->time_since_epoch().count() != when)
      return; // a timer with an earlier deadline has replaced this one
    timer_.reset();
    for (const auto& eviction : table_.overdue(now(self_)))
      evict(eviction);
    serve();
  }

  void resume() {
    paused_ = false;
    watch_.want(true, false);
  }

  /// Closes the links whose handshakes are still running. The time limits of these handshakes are known only to the
  /// listener, which is about to end.
  void end_handshakes() {
    for (const auto& [which, connection] : connections_)
      if (connection.link)
        caf::anon_send(caf::actor_cast<link_actor>(connection.link), close_atom::value);
  }

  void expect(const peers_expected& expected_peers) {
    std::set<std::string> sources;
    for (const auto& peer : expected_peers.peers)
      sources.insert(source_of(peer));
    table_.expect(std::move(sources));
  }

private:
  /// An accepted connection whose link has not opened. Exactly one of the last three members is set.
  struct connection {
    std::string peer;
    descriptor_watch waiting; ///< the first TLS record is incomplete
    descriptor whole;         ///< the first TLS record has arrived; the handshake has not begun
    caf::actor link;          ///< the handshake is running
  };

  void admit(accepted_socket accepted) {
    const auto which = loop_of(self_->system()).next_accepted_link();
    if (const auto evicted = table_.accept(which, source_of(accepted.peer), now(self_)))
      evict(*evicted);
    auto& made = connections_[which];
    made.peer = std::move(accepted.peer);
    switch (look_for_first_record(accepted.socket.get())) {
    case first_record::gone:
      return drop(which, "the peer hung up before the link was open");
    case first_record::whole:
      made.whole = std::move(accepted.socket);
      return table_.ready(which);
    case first_record::missing:
      made.waiting =
          loop_of(self_->system()).watch(std::move(accepted.socket), [self = self_, which](watch_event) {
            caf::anon_send(caf::actor_cast<caf::actor>(self), hello_atom::value, which);
          });
    }
  }

  /// Begins as many handshakes as the table admits, and sets the timer for the next deadline.
  void serve() {
    while (const auto next = table_.begin_next(now(self_))) {
      auto& entry = connections_.at(*next);
      entry.link =
          spawn_link(self_->system(),
                     link_start{std::make_shared<descriptor>(std::move(entry.whole)), "", 0, start_.owner,
                                caf::actor_cast<caf::actor>(self_), *next, start_.settings});
    }
    const auto next = table_.next_due();
    if (!next || (timer_ && *timer_ <= *next))
      return;
    timer_ = next;
    self_->delayed_send(self_, std::max<std::chrono::nanoseconds>(*next - now(self_), {}), due_atom::value,
                        static_cast<std::int64_t>(next->time_since_epoch().count()));
  }

  void evict(const handshake_table::eviction& eviction) {
    const auto found = connections_.find(eviction.which);
    if (found == connections_.end())
      return;
    const auto reason = text_of(eviction.cause, limits_);
    if (found->second.link)
      caf::anon_send(found->second.link, evicted_atom::value, reason); // the link logs the reason
    else
      log_closed(found->second.peer, reason);
    connections_.erase(found);
  }

  void drop(link_id which, const std::string& reason) {
    log_closed(connections_.at(which).peer, reason);
    table_.remove(which);
    connections_.erase(which);
  }

  void log_closed(const std::string& peer, const std::string& reason) {
    if (start_.settings.log)
      start_.settings.log->warning("link from " + peer + " closed: " + reason);
  }

  void pause(int code) {
    if (!std::exchange(paused_, true))
      self_->delayed_send(self_, accept_pause, resume_atom::value);
    watch_.want(false, false);
    if (start_.settings.log)
      start_.settings.log->warning("cannot accept a link for now: " + text_of_errno(code));
    serve();
  }

  caf::event_based_actor* self_;
  listener_start start_;
  handshake_limits limits_;
  handshake_table table_;
  std::map<link_id, connection> connections_; ///< the connections in the table
  std::optional<instant> timer_;              ///< when the next due_atom arrives, at the earliest
  bool paused_ = false;
  descriptor_watch watch_;
};

caf::behavior listener(caf::stateful_actor<listener_state>* self, const listener_start& start) {
  self->set_down_handler([self](const caf::down_msg&) { self->quit(); });
  self->monitor(start.owner);
  self->state.begin(start);
  return {
      [self](readable_atom) { self->state.readable(); },
      [self](hello_atom, link_id which) { self->state.heard(which); },
      [self](settled_atom, link_id which) { self->state.settled(which); },
      [self](due_atom, std::int64_t when) { self->state.due(when); },
      [self](resume_atom) { self->state.resume(); },
      [self](const peers_expected& expected_peers) { self->state.expect(expected_peers); },
      [](hangup_atom) {},
      [self, owner = start.owner](close_atom) {
        self->state.end_handshakes();
        self->demonitor(owner);
        self->quit();
      },
  };
}

/// On this port of each address or, if it is 0, on one of the range that is free on all of them.
expected<std::vector<descriptor>> open_sockets(const std::vector<std::string>& ips, std::uint16_t port,
                                               const port_range& ports) {
  if (port == 0)
    return open_listeners(ips, ports);
  std::vector<descriptor> opened;
  for (const auto& ip : ips) {
    auto socket = open_listener(ip, port);
    if (!socket)
      return socket.error();
    opened.push_back(std::move(*socket));
  }
  return opened;
}

} // namespace

expected<listening> listen(caf::actor_system& system, const std::string& bind_ip, std::uint16_t port,
                           caf::actor owner, const link_settings& settings) {
  auto opened = listen(system, std::vector<std::string>{bind_ip}, port, owner, settings);
  if (!opened)
    return opened.error();
  return std::move(opened->front());
}

expected<std::vector<listening>> listen(caf::actor_system& system, const std::vector<std::string>& bind_ips,
                                        std::uint16_t port, const caf::actor& owner,
                                        const link_settings& settings) {
  assert(owner && !bind_ips.empty());
  std::vector<listening> opened;
  if (settings.simulated) {
    for (const auto& ip : bind_ips) {
      auto made = settings.simulated->listen(ip, opened.empty() ? port : opened.front().port, owner);
      if (!made)
        return made.error();
      opened.push_back(std::move(*made));
    }
    return opened;
  }
  assert(settings.credentials);
  auto sockets = open_sockets(bind_ips, port, settings.ports);
  if (!sockets)
    return sockets.error();
  for (auto& socket : *sockets) {
    const auto chosen = port_of(socket);
    opened.push_back(
        {chosen, system.spawn(listener, listener_start{std::make_shared<descriptor>(std::move(socket)), owner,
                                                       settings})});
  }
  return opened;
}

} // namespace farandole
