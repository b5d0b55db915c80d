#include "actors/kit/link.hpp"

#include "actors/kit/framing.hpp"
#include "actors/kit/loop.hpp"
#include "collectives/paths/connections/sockets.hpp"
#include "messages/membership.hpp"

#include <catch2/catch.hpp>

#include <malloc.h>
#include <poll.h>
#include <sys/socket.h>

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>

namespace farandole {
namespace {

using namespace std::chrono_literals;

constexpr auto patience = 30s; // nothing here takes that long; a hang fails instead of hanging

/// The lines of a log, for the thread that waits for one.
class lines {
public:
  void add(log_level level, std::string_view line) {
    std::lock_guard lock{guard_};
    all_.emplace_back(line);
    if (level >= log_level::warning)
      ++warnings_;
    changed_.notify_all();
  }
  bool wait_for(const std::string& part) {
    std::unique_lock lock{guard_};
    return changed_.wait_for(lock, patience, [&] { return count(part) > 0; });
  }
  std::size_t warnings() {
    std::lock_guard lock{guard_};
    return warnings_;
  }

private:
  std::size_t count(const std::string& part) const {
    return static_cast<std::size_t>(std::count_if(
        all_.begin(), all_.end(), [&](const auto& line) { return line.find(part) != std::string::npos; }));
  }
  std::mutex guard_;
  std::condition_variable changed_;
  std::vector<std::string> all_;
  std::size_t warnings_ = 0;
};

/// One process of the two: a loop, a log, and this thread as the owner of links.
struct party {
  lines said;
  logger log{{.level = log_level::trace}, [this](log_level l, std::string_view t) { said.add(l, t); }};
  loop_system system;
  caf::scoped_actor self{system.get()};
  link_settings settings;

  explicit party(std::string_view secret = "the job's secret") {
    settings.credentials = std::make_shared<const tls_credentials>(secret);
    settings.log = &log;
  }
  caf::actor owner() { return caf::actor_cast<caf::actor>(self); }

  template <class T>
  T next() {
    std::optional<T> got;
    self->receive([&](const T& message) { got = message; },
                  caf::after(patience) >> [] { FAIL("nothing came"); });
    return std::move(*got);
  }
  template <class T>
  bool has_none() {
    bool none = false;
    self->receive([&](const T&) {}, caf::after(0s) >> [&] { none = true; });
    return none;
  }
};

envelope numbered(std::uint64_t number, std::size_t extra = 0) {
  return envelope::write([&](wire::Envelope::Builder to) {
    to.setGeneration(number);
    to.initBody().initRefused().setReason(std::string(extra, 'x'));
  });
}

struct connected {
  party left, right;
  listening door;
  link_opened at_left, at_right;

  explicit connected(const std::function<void(connected&)>& prepare = {}) {
    if (prepare)
      prepare(*this);
    auto made = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
    REQUIRE(made);
    door = *made;
    dial(left.system.get(), "127.0.0.1", door.port, left.owner(), 7, left.settings);
    at_left = left.next<link_opened>();
    at_right = right.next<link_opened>();
  }
};

/// A peer that speaks plain TCP.
struct stranger {
  descriptor socket;
  explicit stranger(descriptor accepted) : socket(std::move(accepted)) {}
  explicit stranger(std::uint16_t port) {
    auto made = start_connecting("127.0.0.1", port);
    REQUIRE(made);
    socket = std::move(*made);
    REQUIRE(ready(POLLOUT));
    REQUIRE(connect_result(socket.get()) == 0);
  }
  bool ready(short events) {
    pollfd one{socket.get(), events, 0};
    return ::poll(&one, 1, 30'000) == 1;
  }
  void say(std::span<const std::byte> bytes) {
    REQUIRE(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  /// Reads until the other end hangs up.
  std::vector<std::byte> rest() {
    std::vector<std::byte> all;
    for (;;) {
      std::byte buffer[4096];
      REQUIRE(ready(POLLIN));
      auto got = ::recv(socket.get(), buffer, sizeof buffer, 0);
      if (got <= 0)
        return all;
      all.insert(all.end(), buffer, buffer + got);
    }
  }
};

std::vector<std::byte> hello_of(const link_settings& settings) {
  tls_session client{settings.credentials, tls_side::client};
  std::vector<std::byte> wire, plain;
  REQUIRE(!client.feed({}, plain, wire));
  return wire;
}

/// Until the session is open.
void shake_hands(stranger& peer, tls_session& tls) {
  while (tls.state() == tls_state::handshaking) {
    std::byte buffer[4096];
    REQUIRE(peer.ready(POLLIN));
    const auto got = ::recv(peer.socket.get(), buffer, sizeof buffer, 0);
    REQUIRE(got > 0);
    std::vector<std::byte> wire, plain;
    REQUIRE(!tls.feed(std::span{buffer}.first(static_cast<std::size_t>(got)), plain, wire));
    if (!wire.empty())
      peer.say(wire);
  }
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST_CASE("both owners hear of a link, with its numbers and its peer") {
  connected pair;
  CHECK(pair.at_left.link == 7);
  CHECK_FALSE(pair.at_left.accepted);
  CHECK(pair.at_left.peer == "127.0.0.1:" + std::to_string(pair.door.port));
  CHECK(pair.at_right.accepted);
  CHECK(pair.at_right.link >= link_id{1} << 63);
}

TEST_CASE("ten thousand messages cross a link both ways, whole and in order") {
  connected pair;
  constexpr std::uint64_t count = 10'000;
  for (std::uint64_t i = 0; i < count; ++i) {
    caf::anon_send(pair.at_left.handle, numbered(i, i % 50));
    caf::anon_send(pair.at_right.handle, numbered(count + i, i % 1000));
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    auto at_right = pair.right.next<link_received>();
    REQUIRE(at_right.link == pair.at_right.link);
    REQUIRE(at_right.message.generation() == i);
    REQUIRE(decode_refused(at_right.message)->reason.size() == i % 50);
    REQUIRE(pair.left.next<link_received>().message.generation() == count + i);
  }
}

TEST_CASE("a message of megabytes arrives whole") {
  connected pair;
  caf::anon_send(pair.at_left.handle, numbered(1, 20 << 20));
  caf::anon_send(pair.at_left.handle, numbered(2));
  CHECK(pair.right.next<link_received>().message.bytes().size() > 20 << 20);
  CHECK(pair.right.next<link_received>().message.generation() == 2);
}

TEST_CASE("closing sends what is queued first, and both ends know that it was wanted") {
  connected pair;
  constexpr std::uint64_t count = 300;
  for (std::uint64_t i = 0; i < count; ++i)
    caf::anon_send(pair.at_left.handle, numbered(i, 10'000));
  caf::anon_send(pair.at_left.handle, close_atom::value);
  for (std::uint64_t i = 0; i < count; ++i)
    REQUIRE(pair.right.next<link_received>().message.generation() == i);
  CHECK(pair.right.next<link_closed>().reason.empty());
  CHECK(pair.left.next<link_closed>().reason.empty());
  CHECK(pair.left.said.warnings() == 0);
  CHECK(pair.right.said.warnings() == 0);
}

TEST_CASE("the last words of a peer are heard even while this end goes on talking") {
  connected pair;
  caf::anon_send(pair.at_right.handle, numbered(42));
  caf::anon_send(pair.at_right.handle, close_atom::value);
  for (std::uint64_t i = 0; i < 200; ++i)
    caf::anon_send(pair.at_left.handle, numbered(i, 50'000));
  CHECK(pair.left.next<link_received>().message.generation() == 42);
  CHECK(pair.left.next<link_closed>().link == 7);
  CHECK(pair.right.next<link_closed>().reason.empty());
}

TEST_CASE("both ends may close at once") {
  connected pair;
  caf::anon_send(pair.at_left.handle, close_atom::value);
  caf::anon_send(pair.at_right.handle, close_atom::value);
  CHECK(pair.left.next<link_closed>().link == 7);
  CHECK(pair.right.next<link_closed>().link == pair.at_right.link);
  CHECK(pair.left.said.warnings() + pair.right.said.warnings() == 0);
}

TEST_CASE("an owner hears that its peer vanished, and one line says so, for information") {
  connected pair;
  caf::anon_send_exit(pair.at_left.handle, caf::exit_reason::kill);
  auto closed = pair.right.next<link_closed>();
  CHECK(closed.link == pair.at_right.link);
  CHECK_THAT(closed.reason, Catch::Contains("gone"));
  CHECK(pair.right.said.wait_for("closed: the peer is gone"));
  CHECK(pair.right.said.warnings() == 0);
}

TEST_CASE("a link ends with its owner, and its peer takes that for a wish") {
  connected pair;
  auto owner = pair.left.system.get().spawn([](caf::event_based_actor*) -> caf::behavior {
    return {[](const link_opened&) {}, [](const link_closed&) {}};
  });
  dial(pair.left.system.get(), "127.0.0.1", pair.door.port, owner, 8, pair.left.settings);
  auto opened = pair.right.next<link_opened>();
  caf::anon_send_exit(owner, caf::exit_reason::user_shutdown);
  auto closed = pair.right.next<link_closed>();
  CHECK(closed.link == opened.link);
  CHECK(closed.reason.empty());
}

TEST_CASE("a peer with the wrong secret gets no link") {
  party right{"right"}, wrong{"wrong"};
  auto door = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
  REQUIRE(door);
  dial(wrong.system.get(), "127.0.0.1", door->port, wrong.owner(), 1, wrong.settings);
  CHECK(wrong.next<link_closed>().link == 1);
  CHECK(right.said.wait_for("secret"));
  CHECK(right.said.warnings() == 1);
  CHECK(right.has_none<link_opened>());
}

TEST_CASE("a peer without TLS is shut out, whatever it says") {
  party right;
  auto door = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
  REQUIRE(door);
  stranger peer{door->port};
  SECTION("a message in the clear") {
    std::vector<std::byte> bytes;
    append_frame(bytes, numbered(1).bytes());
    peer.say(bytes);
  }
  SECTION("garbage") {
    peer.say(std::vector<std::byte>(1000, std::byte{0x5a}));
  }
  SECTION("another protocol") {
    std::string text = "GET / HTTP/1.1\r\n\r\n";
    peer.say(std::as_bytes(std::span{text}));
  }
  peer.rest();
  CHECK(right.said.wait_for("does not speak TLS 1.3"));
  CHECK(right.said.warnings() == 1);
  CHECK(right.has_none<link_opened>());
}

TEST_CASE("however many strangers call, few warnings are logged, and the last states their number") {
  lines said;
  {
    logger log{{.level = log_level::warning}, [&](log_level l, std::string_view t) { said.add(l, t); }};
    party right;
    right.settings.log = &log;
    auto door = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
    REQUIRE(door);
    for (int i = 0; i < 40; ++i) {
      stranger peer{door->port};
      peer.say(std::vector<std::byte>(100, std::byte{0x5a}));
      peer.rest();
    }
    right.self->monitor(door->handle);
    caf::anon_send(door->handle, close_atom::value);
    right.next<caf::down_msg>();
    CHECK(said.warnings() == 3);
  }
  CHECK(said.wait_for("37 more like this"));
  CHECK(said.warnings() == 4);
}

TEST_CASE("a peer that says nothing, or half a hello, is shut out at the deadline, which is named") {
  party right;
  right.settings.handshakes.hello = 20ms;
  auto door = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
  REQUIRE(door);
  stranger peer{door->port};
  SECTION("nothing") {}
  SECTION("one byte") {
    const auto hello = hello_of(right.settings);
    peer.say(std::span{hello}.first(1));
  }
  SECTION("all but one byte") {
    const auto hello = hello_of(right.settings);
    peer.say(std::span{hello}.first(hello.size() - 1));
  }
  CHECK(peer.rest().empty());
  CHECK(right.said.wait_for("closed: it did not send a TLS hello within 20 ms"));
  CHECK(right.said.warnings() == 1);
}

TEST_CASE("a peer that ends its hello in the middle is dropped at once, and does not keep the loop awake") {
  party right;
  right.settings.handshakes.hello = 10s;
  auto door = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
  REQUIRE(door);
  const auto hello = hello_of(right.settings);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4}, hello.size() - 1}) {
    stranger peer{door->port};
    peer.say(std::span{hello}.first(bytes));
    ::shutdown(peer.socket.get(), SHUT_WR);
    CHECK(peer.rest().empty()); // closed by the listener, long before the deadline
  }
  CHECK(right.said.wait_for("closed: the peer hung up before the link was open"));
}

TEST_CASE("a hello that comes in pieces is as good as one that comes at once") {
  party right;
  auto door = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
  REQUIRE(door);
  stranger peer{door->port};
  tls_session tls{right.settings.credentials, tls_side::client};
  std::vector<std::byte> wire, plain;
  REQUIRE(!tls.feed({}, plain, wire));
  for (const auto& each : wire)
    peer.say(std::span{&each, 1});
  shake_hands(peer, tls);
  CHECK(right.next<link_opened>().accepted);
}

TEST_CASE("half a handshake ends at its deadline, or sooner if its place is wanted") {
  party right;
  right.settings.handshakes.shaking = 1;
  std::string expected;
  SECTION("its own") {
    right.settings.handshakes.handshake = 20ms;
    expected = "no proof of the secret within 20 ms";
  }
  SECTION("wanted") {
    right.settings.handshakes.contended = 20ms;
    expected = "no proof of the secret within 20 ms, and others waited";
  }
  auto door = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
  REQUIRE(door);
  stranger peer{door->port};
  peer.say(hello_of(right.settings)); // as somebody has recorded it
  REQUIRE(peer.ready(POLLIN));
  party left;
  dial(left.system.get(), "127.0.0.1", door->port, left.owner(), 1, left.settings);
  CHECK(left.next<link_opened>().link == 1);
  peer.rest();
  CHECK(right.said.wait_for(expected));
  CHECK(right.next<link_opened>().accepted);
}

TEST_CASE("thousands of silent strangers keep nobody out, and cost descriptors for a few only") {
  party right;
  right.settings.handshakes.hello = 10min; // they go because they are too many, not by their time
  right.settings.handshakes.connections = 32;
  auto door = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
  REQUIRE(door);
  const auto before = open_descriptors();
  std::deque<stranger> silent;
  party left;
  for (int i = 1; i <= 4096; ++i) {
    silent.emplace_back(door->port);
    if (silent.size() > 200)
      silent.pop_front();
    if (i % 1024 == 0) {
      dial(left.system.get(), "127.0.0.1", door->port, left.owner(), static_cast<link_id>(i), left.settings);
      CHECK(left.next<link_opened>().link == static_cast<link_id>(i));
      CHECK(right.next<link_opened>().accepted);
    }
  }
  CHECK(open_descriptors() < before + 200 + 32 + 2 * 4 + 16);
  CHECK(right.said.wait_for("it was silent, and more than 16 connections from its address were"));
}

TEST_CASE("who is turned away by a listener dials again until its time is over") {
  party left;
  auto crowded = open_listener("127.0.0.1", 0);
  REQUIRE(crowded);
  const auto turn_away = [&] {
    pollfd waiting{crowded->get(), POLLIN, 0};
    REQUIRE(::poll(&waiting, 1, 30'000) == 1);
    REQUIRE(accept_one(crowded->get()).socket);
  };
  SECTION("and gets in when there is room") {
    const auto port = port_of(*crowded);
    dial(left.system.get(), "127.0.0.1", port, left.owner(), 1, left.settings);
    for (int i = 0; i < 3; ++i)
      turn_away();
    // Where it was turned away it is served next: the same socket, in other hands.
    pollfd waiting{crowded->get(), POLLIN, 0};
    REQUIRE(::poll(&waiting, 1, 30'000) == 1);
    auto accepted = accept_one(crowded->get());
    REQUIRE(accepted.socket);
    tls_session tls{left.settings.credentials, tls_side::server};
    stranger server{std::move(accepted.socket)};
    shake_hands(server, tls);
    CHECK(left.next<link_opened>().link == 1);
  }
  SECTION("and says so if it does not") {
    left.settings.connect_timeout = 1ms;
    left.settings.connect_timeout_setting = "connect timeout = 0.001 s";
    dial(left.system.get(), "127.0.0.1", port_of(*crowded), left.owner(), 1, left.settings);
    turn_away();
    CHECK_THAT(left.next<link_closed>().reason, Catch::Contains("before the link was open") ||
                                                    Catch::Contains("within connect timeout = 0.001 s"));
  }
}

TEST_CASE("an owner of a listener keeps nothing of those that were refused") {
  party right;
  lines* said = &right.said;
  right.settings.log = nullptr;
  const auto owner = right.system.get().spawn([](caf::event_based_actor*) -> caf::behavior {
    return {[](const link_opened&) {}, [](const link_received&) {}, [](const link_closed&) {}};
  });
  auto door = listen(right.system.get(), "127.0.0.1", 0, owner, right.settings);
  REQUIRE(door);
  const auto refuse = [&](int count) {
    for (int i = 0; i < count; ++i) {
      stranger peer{door->port};
      peer.say(std::vector<std::byte>(100, std::byte{0x5a}));
      peer.rest();
    }
  };
  refuse(500); // what grows once and is used again has grown
  const auto before = ::mallinfo2().uordblks;
  refuse(3000);
  CHECK(::mallinfo2().uordblks < before + 3000 * 100);
  CHECK(said->warnings() == 0);
  caf::anon_send_exit(owner, caf::exit_reason::user_shutdown);
}

TEST_CASE("a listener that shakes as many hands as it may lets the others wait, then takes them") {
  party right;
  right.settings.handshakes.shaking = 2;
  auto door = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
  REQUIRE(door);
  auto first = std::make_unique<stranger>(door->port);
  auto second = std::make_unique<stranger>(door->port);
  party left;
  dial(left.system.get(), "127.0.0.1", door->port, left.owner(), 1, left.settings);
  first.reset();
  CHECK(left.next<link_opened>().link == 1);
}

TEST_CASE("a message beyond the limit closes the link, and only that link") {
  connected pair{[](connected& p) { p.right.settings.limits.bytes = 4096; }};
  dial(pair.left.system.get(), "127.0.0.1", pair.door.port, pair.left.owner(), 8, pair.left.settings);
  auto other = pair.left.next<link_opened>();
  caf::anon_send(pair.at_left.handle, numbered(1, 5000));
  auto closed = pair.right.next<link_closed>();
  CHECK(closed.link == pair.at_right.link);
  CHECK_THAT(closed.reason, Catch::Contains("limit of 4096"));
  CHECK(pair.right.has_none<link_received>());
  CHECK(pair.left.next<link_closed>().link == 7);
  caf::anon_send(other.handle, numbered(5));
  CHECK(pair.right.next<link_received>().message.generation() == 5);
}

TEST_CASE("a peer that knows the secret and sends nonsense is shut out") {
  party right;
  auto door = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
  REQUIRE(door);
  stranger peer{door->port};
  tls_session tls{right.settings.credentials, tls_side::client};
  std::vector<std::byte> wire, plain;
  REQUIRE(!tls.feed({}, plain, wire));
  peer.say(wire);
  while (tls.state() == tls_state::handshaking) {
    std::byte buffer[4096];
    REQUIRE(peer.ready(POLLIN));
    auto got = ::recv(peer.socket.get(), buffer, sizeof buffer, 0);
    REQUIRE(got > 0);
    wire.clear();
    REQUIRE(!tls.feed(std::span{buffer}.first(static_cast<std::size_t>(got)), plain, wire));
  }
  std::vector<std::byte> nonsense;
  SECTION("where a frame should begin") {
    nonsense.assign(64, std::byte{0xab});
  }
  SECTION("inside a frame") {
    append_frame(nonsense, std::vector<std::byte>(64, std::byte{0xab}));
  }
  REQUIRE(!tls.seal(nonsense, wire));
  peer.say(wire);
  peer.rest();
  right.next<link_opened>();
  CHECK_FALSE(right.next<link_closed>().reason.empty());
  CHECK(right.has_none<link_received>());
  CHECK(right.said.warnings() == 1);
}

/// The other end of a link, whose process then stops: it neither reads nor closes.
stranger stopped_peer(party& right) {
  auto door = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
  REQUIRE(door);
  stranger peer{door->port};
  tls_session tls{right.settings.credentials, tls_side::client};
  std::vector<std::byte> wire, plain;
  REQUIRE(!tls.feed({}, plain, wire));
  while (tls.state() == tls_state::handshaking) {
    peer.say(wire);
    wire.clear();
    std::byte buffer[4096];
    REQUIRE(peer.ready(POLLIN));
    auto got = ::recv(peer.socket.get(), buffer, sizeof buffer, 0);
    REQUIRE(got > 0);
    REQUIRE(!tls.feed(std::span{buffer}.first(static_cast<std::size_t>(got)), plain, wire));
  }
  peer.say(wire);
  return peer;
}

TEST_CASE("a link that is cut does not wait for a peer that has stopped, nor for what it has not taken") {
  party right;
  right.settings.close_timeout = 1h;
  const auto peer = stopped_peer(right);
  const auto opened = right.next<link_opened>();
  const bool full = GENERATE(false, true);
  const auto big = numbered(1, 100'000);
  for (int i = 0; full && i < 200; ++i) // 20 MB: more than any socket buffer
    caf::anon_send(opened.handle, big);
  if (full)
    caf::anon_send(opened.handle, close_atom::value); // asked to close in order before
  caf::anon_send(opened.handle, cut_atom::value);
  CHECK(right.next<link_closed>().reason.empty());
  CHECK(right.said.warnings() == 0);
}

TEST_CASE("a peer hears what was sent before a link was cut, and that its end was wanted") {
  connected both;
  caf::anon_send(both.at_left.handle, numbered(5));
  caf::anon_send(both.at_left.handle, cut_atom::value);
  CHECK(both.right.next<link_received>().message.generation() == 5);
  CHECK(both.right.next<link_closed>().reason.empty());
  CHECK(both.left.next<link_closed>().reason.empty());
}

TEST_CASE("a peer that does not read costs a bounded queue, then its link") {
  party right;
  right.settings.queue_bytes = 1 << 20;
  const auto peer = stopped_peer(right);
  auto opened = right.next<link_opened>();
  auto big = numbered(1, 100'000);
  for (int i = 0; i < 2000; ++i) // 200 MB: more than any socket buffer
    caf::anon_send(opened.handle, big);
  CHECK_THAT(right.next<link_closed>().reason, Catch::Contains("too long to read"));
}

TEST_CASE("dialling where nobody listens, or no address at all, ends with the reason") {
  party left;
  auto unused = open_listener("127.0.0.1", 0);
  REQUIRE(unused);
  auto port = port_of(*unused);
  unused->close();
  dial(left.system.get(), "127.0.0.1", port, left.owner(), 1, left.settings);
  CHECK_THAT(left.next<link_closed>().reason, Catch::Contains("refused"));
  dial(left.system.get(), "no address", 1, left.owner(), 2, left.settings);
  auto closed = left.next<link_closed>();
  CHECK(closed.link == 2);
  CHECK_THAT(closed.reason, Catch::Contains("'no address'"));
}

TEST_CASE("a port that is taken is refused with its address") {
  party right;
  auto first = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
  REQUIRE(first);
  auto second = listen(right.system.get(), "127.0.0.1", first->port, right.owner(), right.settings);
  REQUIRE_FALSE(second);
  CHECK_THAT(second.error().text, Catch::Contains("127.0.0.1:" + std::to_string(first->port)));
}

TEST_CASE("a closed listener takes no more, and its links live on") {
  connected pair;
  pair.right.self->monitor(pair.door.handle);
  caf::anon_send(pair.door.handle, close_atom::value);
  pair.right.next<caf::down_msg>();
  caf::anon_send(pair.at_left.handle, numbered(9));
  CHECK(pair.right.next<link_received>().message.generation() == 9);
}

} // namespace
} // namespace farandole
