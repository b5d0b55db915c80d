#include "actors/event_loop/link.hpp"

#include "actors/event_loop/clock.hpp"
#include "actors/event_loop/framing.hpp"
#include "actors/event_loop/link_messages.hpp"
#include "actors/event_loop/link_parts.hpp"
#include "actors/event_loop/link_send_queue.hpp"
#include "collectives/transport/connections/sockets.hpp"

#include "elastic/reconnect_backoff.hpp"
#include "messages/settings/listening_ports.hpp"
#include "messages/settings/settings.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>

namespace farandole {

namespace {

using call_atom = caf::atom_constant<caf::atom("call")>;

using flush_atom = caf::atom_constant<caf::atom("flush")>;
using connect_deadline_atom = caf::atom_constant<caf::atom("opendue")>;
using close_deadline_atom = caf::atom_constant<caf::atom("closedue")>;

constexpr std::size_t read_bytes = 64 * 1024;

class link_state {
public:
  static inline const char* name = "link";

  explicit link_state(caf::event_based_actor* self) : self_(self) {}

  void begin(const link_start& start) {
    start_ = start;
    reader_.emplace(start_.settings.limits.bytes);
    if (start_.accepted) {
      peer_ = peer_of(start_.accepted->get());
      watch_ = watch_for(self_, std::move(*start_.accepted));
      return shake_hands(tls_side::server);
    }
    peer_ = start_.ip + ":" + std::to_string(start_.port);
    self_->delayed_send(self_, start_.settings.connect_timeout, connect_deadline_atom::value);
    calls_ = reconnect_backoff{start_.settings.connect_timeout};
    connect();
  }

  void connect() {
    if (phase_ != phase::connecting)
      return;
    auto socket = start_connecting(start_.ip, start_.port);
    if (!socket)
      return end(socket.error().text);
    watch_ = watch_for(self_, std::move(*socket));
    watch_.want(false, true);
  }

  void readable() {
    if (!watch_)
      return;
    if (phase_ == phase::connecting)
      return writable();
    take_once();
  }

  void writable() {
    if (!watch_)
      return;
    if (phase_ != phase::connecting)
      return flush();
    if (int problem = connect_result(watch_.get()); problem != 0)
      return end_without_peer("cannot connect: " + text_of_errno(problem));
    shake_hands(tls_side::client);
  }

  /// The loop reports no further events for this descriptor, so all bytes that remain in the socket are read now.
  void hangup() {
    if (!watch_)
      return; // the link waits to dial again
    if (phase_ == phase::connecting)
      return end_without_peer("cannot connect: " + text_of_errno(connect_result(watch_.get())));
    while (phase_ != phase::connecting && phase_ != phase::ended && take_once()) {
    }
    hung_up(lost());
  }

  void queue(const envelope& message) {
    if (phase_ != phase::open)
      return; // the owner has received link_closed or will receive it
    outgoing_.push(message);
    if (outgoing_.waiting_bytes() > start_.settings.queue_bytes)
      return end("the peer takes too long to read: " + std::to_string(outgoing_.waiting_bytes()) +
                 " bytes wait, more than the limit of " + std::to_string(start_.settings.queue_bytes));
    if (!flush_asked_) {
      flush_asked_ = true;
      loop_of(self_->system()).at_turn_end([to = caf::actor_cast<caf::actor>(self_)] {
        caf::anon_send(to, flush_atom::value);
      });
    }
  }

  void turn_ended() {
    flush_asked_ = false;
    flush();
  }

  /// Seals and sends as much as the socket accepts. The rest stays queued until the socket is writable again.
  void flush() {
    while (phase_ != phase::ended) {
      if (!send_sealed())
        return;
      if (!outgoing_.has_unsealed())
        break;
      if (auto problem = outgoing_.seal_some(*tls_))
        return end(problem.text);
    }
    if (phase_ != phase::closing)
      return;
    if (!said_farewell_) {
      said_farewell_ = true;
      tls_->finish(outgoing_.sealed());
    }
    if (send_sealed() && !shut_) {
      shut_ = true;
      ::shutdown(watch_.get(), SHUT_WR);
    }
  }

  /// Closes in order: sends all queued messages, then the TLS close_notify alert. The link ends when the peer closes
  /// its side of the stream.
  void close() {
    if (phase_ == phase::closing || phase_ == phase::ended)
      return;
    if (phase_ != phase::open)
      return end("closed before it was open", true);
    phase_ = phase::closing;
    self_->delayed_send(self_, start_.settings.close_timeout, close_deadline_atom::value);
    flush();
  }

  /// Closes without waiting for the peer: sends only as much as the socket accepts at once.
  void cut() {
    if (phase_ == phase::open) {
      phase_ = phase::closing;
      flush();
    }
    end("cut off", true);
  }

  void connect_overdue() {
    if (phase_ == phase::connecting || phase_ == phase::shaking)
      end(std::string{calls_.searching()            ? "the peer hung up each time before the link was open"
                      : phase_ == phase::connecting ? "no connection"
                                                    : "no proof of the secret"} +
          " within " + start_.settings.connect_timeout_setting);
  }

  void evicted(const std::string& reason) {
    if (phase_ == phase::shaking)
      end(reason);
  }

  void close_overdue() { end("the peer did not accept the queued data in time to close", shut_); }

  /// The peer's process ended or cannot be reached. The owner is notified and decides whether that matters, so the
  /// log line has level INFO. An accepted connection whose peer never proved the secret has no owner to notify; its
  /// line is a warning.
  void end_without_peer(const std::string& reason) { end(reason, false, true); }

  /// Ends the link and reports the reason once, to the log and to the owner. `wanted`: the end was requested, so it
  /// is not an error.
  void end(const std::string& reason, bool wanted = false, bool peer_is_gone = false) {
    if (phase_ == phase::ended)
      return;
    wanted = wanted || shut_; // after the last byte was sent any way of ending counts as in order
    bool owner_knows = phase_ == phase::open || phase_ == phase::closing || !start_.listener;
    settle_with_listener();
    phase_ = phase::ended;
    if (auto* log = start_.settings.log; log && !wanted && !reason.empty()) {
      auto line =
          "link " + std::string{start_.listener ? "from " : "to "} + peer_ + " closed" + ": " + reason;
      if (peer_is_gone && owner_knows)
        log->info(line);
      else
        log->warning(line);
    }
    if (owner_knows)
      self_->send(start_.owner, link_closed{start_.id, wanted ? std::string{} : reason, untrusted_});
    watch_.stop();
    self_->demonitor(start_.owner); // otherwise the owner would keep an entry for each of its ended links
    self_->quit();
  }

private:
  enum class phase { connecting, shaking, open, closing, ended };

  void shake_hands(tls_side side) {
    phase_ = phase::shaking;
    limit_silence(watch_.get(), start_.settings.silence);
    watch_.want(true, false);
    tls_.emplace(start_.settings.credentials, side);
    process_received({});
  }

  /// Reads once from the socket. Returns false if it had no bytes.
  bool take_once() {
    std::array<std::byte, read_bytes> buffer;
    auto got = ::recv(watch_.get(), buffer.data(), buffer.size(), 0);
    const int problem = errno;
    if (got > 0) {
      process_received(std::span{buffer}.first(static_cast<std::size_t>(got)));
      return true;
    }
    if (got == 0)
      hung_up(lost());
    else if (tells_silence(problem))
      end(lost() + ": " + text_of_errno(problem) + ", no answer within " + start_.settings.silence_setting);
    else if (problem != EAGAIN && problem != EINTR)
      hung_up(lost() + ": " + text_of_errno(problem));
    return false;
  }

  /// The peer closed the connection. During the handshake a dialling link retries with backoff, because a listener
  /// closes connections for which it has no room and may have room a moment later.
  void hung_up(const std::string& reason) {
    if (phase_ == phase::connecting)
      return; // a retry is scheduled already
    if (phase_ != phase::shaking || start_.listener)
      return end_without_peer(reason);
    const auto wait = calls_.next(now(self_), 0);
    if (!wait)
      return end_without_peer(reason);
    phase_ = phase::connecting;
    watch_.stop();
    outgoing_.forget_sealed();
    deaf_ = false;
    self_->delayed_send(self_, *wait, call_atom::value);
  }

  std::string lost() const {
    return phase_ == phase::shaking ? "the peer hung up before the link was open" : "the peer is gone";
  }

  void process_received(std::span<const std::byte> received) {
    std::vector<std::byte> plain;
    auto problem = tls_->feed(received, plain, outgoing_.sealed());
    if (problem) {
      // Send the TLS alert if the socket accepts it at once; the link ends either way.
      outgoing_.send(watch_.get());
      untrusted_ = phase_ == phase::shaking;
      return end(problem.text);
    }
    // feed() may have appended sealed bytes. flush() sends them and then continues with the queue: if they leave room
    // in the socket, no writable event follows that would continue with it.
    if (outgoing_.has_sealed())
      flush();
    if (phase_ == phase::ended)
      return;
    if (phase_ == phase::shaking && tls_->state() != tls_state::handshaking)
      opened();
    if (phase_ == phase::open && !deliver(plain))
      return;
    // In phase closing, messages that still arrive are not delivered.
    if (tls_->state() == tls_state::closed && phase_ != phase::ended)
      end("");
  }

  void opened() {
    phase_ = phase::open;
    settle_with_listener();
    self_->send(start_.owner, link_opened{start_.id, caf::actor_cast<caf::actor>(self_), peer_,
                                          static_cast<bool>(start_.listener)});
  }

  bool deliver(std::span<const std::byte> plain) {
    if (auto problem = reader_->push(plain)) {
      end(problem.text);
      return false;
    }
    while (auto bytes = reader_->next()) {
      auto message = envelope::parse(*bytes, start_.settings.limits);
      if (!message) {
        end("a malformed message: " + message.error().text);
        return false;
      }
      self_->send(start_.owner, link_received{start_.id, std::move(*message)});
    }
    return true;
  }

  /// Returns true if the kernel has accepted all sealed bytes. Otherwise the loop reports when the socket is
  /// writable.
  bool send_sealed() {
    if (deaf_)
      return false;
    switch (outgoing_.send(watch_.get())) {
    case link_send_queue::progress::done:
      watch_.want(true, false);
      return true;
    case link_send_queue::progress::blocked:
      watch_.want(true, true);
      return false;
    case link_send_queue::progress::failed:
      // The peer is gone. The bytes that it sent before are still to be read, because they may contain the reason.
      deaf_ = true;
      self_->send(self_, hangup_atom::value);
      return false;
    }
    assert(false);
    return false;
  }

  void settle_with_listener() {
    if (start_.listener && !settled_) {
      settled_ = true;
      self_->send(start_.listener, settled_atom::value, start_.id);
    }
  }

  caf::event_based_actor* self_;
  link_start start_;
  std::string peer_;
  phase phase_ = phase::connecting;
  bool untrusted_ = false; ///< the peer does not have the secret of this job
  bool settled_ = false;
  bool flush_asked_ = false;
  bool said_farewell_ = false;
  bool shut_ = false; ///< everything was sent, and the sending side of the socket is shut down
  bool deaf_ = false; ///< sending has failed: the peer receives nothing any more

  std::optional<tls_session> tls_;
  std::optional<frame_reader> reader_;
  link_send_queue outgoing_;
  descriptor_watch watch_;
  reconnect_backoff calls_; ///< retries of a dialling link whose peer closed the connection
};

using link_self = caf::stateful_actor<link_state>;

/// Ends the link if `action` throws. No bytes that a peer sends may throw past this point.
template <class Action>
auto guarded(link_self* self, Action action) {
  return [self, action](auto&&... arguments) {
    try {
      action(self->state, arguments...);
    } catch (const std::exception& problem) {
      self->state.end(problem.what());
    } catch (...) {
      self->state.end("an unknown exception");
    }
  };
}

caf::behavior link(link_self* self, const link_start& start) {
  self->set_exit_handler([self](const caf::exit_msg&) { self->state.end("told to end", true); });
  self->set_down_handler([self](const caf::down_msg&) { self->state.close(); });
  self->monitor(start.owner);
  guarded(self, [&](link_state& s) { s.begin(start); })();
  auto on = [self](auto action) { return guarded(self, action); };
  return {
      [run = on([](link_state& s, const envelope& m) { s.queue(m); })](const envelope& m) { run(m); },
      [run = on([](link_state& s) { s.close(); })](close_atom) { run(); },
      [run = on([](link_state& s) { s.cut(); })](cut_atom) { run(); },
      [run = on([](link_state& s) { s.readable(); })](readable_atom) { run(); },
      [run = on([](link_state& s) { s.writable(); })](writable_atom) { run(); },
      [run = on([](link_state& s) { s.hangup(); })](hangup_atom) { run(); },
      [run = on([](link_state& s) { s.turn_ended(); })](flush_atom) { run(); },
      [run = on([](link_state& s) { s.connect(); })](call_atom) { run(); },
      [run = on([](link_state& s) { s.connect_overdue(); })](connect_deadline_atom) { run(); },
      [run = on([](link_state& s, const std::string& reason) { s.evicted(reason); })](
          evicted_atom, const std::string& reason) { run(reason); },
      [run = on([](link_state& s) { s.close_overdue(); })](close_deadline_atom) { run(); },
  };
}

} // namespace

link_settings link_settings::of(const settings& values) {
  link_settings links;
  links.silence = values.duration(setting::link_timeout);
  links.silence_setting = values.cited(setting::link_timeout);
  links.ports = ports_of(values);
  return links;
}

descriptor_watch watch_for(caf::event_based_actor* self, descriptor fd) {
  const auto handle = caf::actor_cast<caf::actor>(self);
  return loop_of(self->system()).watch(std::move(fd), [handle](watch_event event) {
    switch (event) {
    case watch_event::readable:
      return caf::anon_send(handle, readable_atom::value);
    case watch_event::writable:
      return caf::anon_send(handle, writable_atom::value);
    case watch_event::hangup:
      return caf::anon_send(handle, hangup_atom::value);
    }
  });
}

caf::actor spawn_link(caf::actor_system& system, const link_start& start) {
  return system.spawn(link, start);
}

void dial(caf::actor_system& system, const std::string& ip, std::uint16_t port, caf::actor owner, link_id id,
          const link_settings& settings) {
  assert(owner && id < (link_id{1} << 63));
  if (settings.simulated)
    return settings.simulated->dial(ip, port, std::move(owner), id);
  assert(settings.credentials);
  spawn_link(system, link_start{nullptr, ip, port, std::move(owner), {}, id, settings});
}

} // namespace farandole
