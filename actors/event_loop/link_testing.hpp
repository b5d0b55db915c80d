// Helpers for tests of links and listeners: a party with a loop, a log and a thread that owns its links, and a peer
// whose handshake and messages the test sends step by step.
#pragma once

#include <catch2/catch.hpp>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "actors/event_loop/framing.hpp"
#include "actors/event_loop/link.hpp"
#include "actors/event_loop/link_messages.hpp"
#include "actors/event_loop/loop.hpp"
#include "collectives/transport/connections/sockets.hpp"
#include "collectives/transport/connections/stranger_testing.hpp"
#include "messages/wire/membership.hpp"
#include "tests/patience.hpp"

namespace farandole::testing {

/// The lines of a log. A thread can wait for a line that contains two given parts.
class lines {
public:
  void add(log_level level, std::string_view line) {
    std::lock_guard lock{mutex_};
    all_.emplace_back(line);
    if (level >= log_level::warning)
      ++warnings_;
    if (level >= log_level::error)
      ++errors_;
    changed_.notify_all();
  }
  bool wait_for(const std::string& part, const std::string& other = {}) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, patience, [&] {
      return std::any_of(all_.begin(), all_.end(), [&](const auto& line) {
        return line.find(part) != std::string::npos && line.find(other) != std::string::npos;
      });
    });
  }
  /// Warnings and errors.
  std::size_t warnings() {
    std::lock_guard lock{mutex_};
    return warnings_;
  }
  std::size_t errors() {
    std::lock_guard lock{mutex_};
    return errors_;
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> all_;
  std::size_t warnings_ = 0;
  std::size_t errors_ = 0;
};

/// One of the two parties of a test: a loop, a log, and the test's thread as the owner of the links.
struct party {
  lines log_lines;
  logger log{{.level = log_level::trace}, [this](log_level l, std::string_view t) { log_lines.add(l, t); }};
  loop_system system;
  caf::scoped_actor self{system.get()};
  link_settings settings;

  explicit party(std::string_view secret = "the job's secret") {
    settings.credentials = std::make_shared<const tls_credentials>(secret);
    // On a busy machine a peer of the test may be slow.
    settings.connect_timeout = settings.handshakes.hello = settings.handshakes.handshake = patience;
    settings.log = &log;
  }
  caf::actor owner() { return caf::actor_cast<caf::actor>(self); }

  template <class T>
  T next() {
    std::optional<T> got;
    self->receive([&](const T& message) { got = message; },
                  caf::after(patience) >> [] { FAIL("no message arrived"); });
    return std::move(*got);
  }
  template <class T>
  bool has_none() {
    bool none = false;
    self->receive([&](const T&) {}, caf::after(std::chrono::seconds{0}) >> [&] { none = true; });
    return none;
  }
};

inline envelope numbered(std::uint64_t number, std::size_t extra = 0) {
  return envelope::write([&](wire::Envelope::Builder to) {
    to.setGeneration(number);
    to.initBody().initRefused().setReason(std::string(extra, 'x'));
  });
}

struct connected {
  party left, right;
  listening listener;
  link_opened at_left, at_right;

  explicit connected(const std::function<void(connected&)>& prepare = {}) {
    if (prepare)
      prepare(*this);
    auto made = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
    REQUIRE(made);
    listener = *made;
    dial(left.system.get(), "127.0.0.1", listener.port, left.owner(), 7, left.settings);
    at_left = left.next<link_opened>();
    at_right = right.next<link_opened>();
  }
};

inline std::vector<std::byte> hello_of(const link_settings& settings) {
  tls_session client{settings.credentials, tls_side::client};
  std::vector<std::byte> wire, plain;
  REQUIRE(!client.feed({}, plain, wire));
  return wire;
}

/// Sends the client's TLS hello. Returns false if the listener has closed the connection.
inline bool try_to_begin_session(const stranger& peer, tls_session& tls) {
  std::vector<std::byte> wire, plain;
  REQUIRE(!tls.feed({}, plain, wire));
  return peer.try_to_say(wire);
}
inline void begin_session(const stranger& peer, tls_session& tls) {
  REQUIRE(try_to_begin_session(peer, tls));
}

/// Continues the handshake after begin_session() until the session is open.
inline void shake_hands(const stranger& peer, tls_session& tls) {
  while (tls.state() == tls_state::handshaking) {
    REQUIRE(peer.ready(POLLIN));
    const auto heard = peer.hear();
    REQUIRE_FALSE(heard.empty());
    std::vector<std::byte> wire, plain;
    REQUIRE(!tls.feed(heard, plain, wire));
    if (!wire.empty())
      peer.say(wire);
  }
}

inline void say_sealed(const stranger& peer, tls_session& tls, const envelope& message) {
  std::vector<std::byte> wire, framed;
  append_frame(framed, message.bytes());
  REQUIRE(!tls.seal(framed, wire));
  peer.say(wire);
}

/// Connects and completes the handshake, which proves the secret.
inline stranger call_as_member(std::uint16_t port, tls_session& tls) {
  stranger peer{port};
  begin_session(peer, tls);
  shake_hands(peer, tls);
  return peer;
}

} // namespace farandole::testing
