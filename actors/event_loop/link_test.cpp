#include "actors/event_loop/link.hpp"

#include "actors/event_loop/link_testing.hpp"

namespace farandole {
namespace {

using namespace testing;
using namespace std::chrono_literals;

TEST_CASE("both owners of a link learn its number, its peer and which of them accepted it") {
  connected pair;
  CHECK(pair.at_left.link == 7);
  CHECK_FALSE(pair.at_left.accepted);
  CHECK(pair.at_left.peer == "127.0.0.1:" + std::to_string(pair.listener.port));
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

TEST_CASE("a message of 20 MiB arrives whole") {
  connected pair;
  caf::anon_send(pair.at_left.handle, numbered(1, 20 << 20));
  caf::anon_send(pair.at_left.handle, numbered(2));
  CHECK(pair.right.next<link_received>().message.bytes().size() > 20 << 20);
  CHECK(pair.right.next<link_received>().message.generation() == 2);
}

TEST_CASE("closing a link sends the queued messages first, and both owners learn of a planned end") {
  connected pair;
  constexpr std::uint64_t count = 300;
  for (std::uint64_t i = 0; i < count; ++i)
    caf::anon_send(pair.at_left.handle, numbered(i, 10'000));
  caf::anon_send(pair.at_left.handle, close_atom::value);
  for (std::uint64_t i = 0; i < count; ++i)
    REQUIRE(pair.right.next<link_received>().message.generation() == i);
  CHECK(pair.right.next<link_closed>().reason.empty());
  CHECK(pair.left.next<link_closed>().reason.empty());
  CHECK(pair.left.log_lines.warnings() == 0);
  CHECK(pair.right.log_lines.warnings() == 0);
}

TEST_CASE("the last message before a peer closes arrives even while this end goes on sending") {
  connected pair;
  caf::anon_send(pair.at_right.handle, numbered(42));
  caf::anon_send(pair.at_right.handle, close_atom::value);
  for (std::uint64_t i = 0; i < 200; ++i)
    caf::anon_send(pair.at_left.handle, numbered(i, 50'000));
  CHECK(pair.left.next<link_received>().message.generation() == 42);
  CHECK(pair.left.next<link_closed>().link == 7);
  CHECK(pair.right.next<link_closed>().reason.empty());
}

TEST_CASE("both ends may close a link at once") {
  connected pair;
  caf::anon_send(pair.at_left.handle, close_atom::value);
  caf::anon_send(pair.at_right.handle, close_atom::value);
  CHECK(pair.left.next<link_closed>().link == 7);
  CHECK(pair.right.next<link_closed>().link == pair.at_right.link);
  CHECK(pair.left.log_lines.warnings() + pair.right.log_lines.warnings() == 0);
}

TEST_CASE("the owner of a link learns that the peer vanished, and one line at level info says so") {
  connected pair;
  caf::anon_send_exit(pair.at_left.handle, caf::exit_reason::kill);
  auto closed = pair.right.next<link_closed>();
  CHECK(closed.link == pair.at_right.link);
  CHECK_THAT(closed.reason, Catch::Contains("gone"));
  CHECK(pair.right.log_lines.wait_for("closed: the peer is gone"));
  CHECK(pair.right.log_lines.warnings() == 0);
}

TEST_CASE("a link ends with its owner, and its peer takes that for a planned end") {
  connected pair;
  auto owner = pair.left.system.get().spawn([](caf::event_based_actor*) -> caf::behavior {
    return {[](const link_opened&) {}, [](const link_closed&) {}};
  });
  dial(pair.left.system.get(), "127.0.0.1", pair.listener.port, owner, 8, pair.left.settings);
  auto opened = pair.right.next<link_opened>();
  caf::anon_send_exit(owner, caf::exit_reason::user_shutdown);
  auto closed = pair.right.next<link_closed>();
  CHECK(closed.link == opened.link);
  CHECK(closed.reason.empty());
}

TEST_CASE("a link and a listener live as long as their owner, even after their last handle is dropped") {
  connected pair;
  pair.at_left.handle = {};
  caf::anon_send(pair.at_right.handle, numbered(3));
  CHECK(pair.left.next<link_received>().message.generation() == 3);
  pair.listener.handle = {};
  dial(pair.left.system.get(), "127.0.0.1", pair.listener.port, pair.left.owner(), 8, pair.left.settings);
  CHECK(pair.left.next<link_opened>().link == 8);
  CHECK(pair.right.next<link_opened>().accepted);
}

TEST_CASE("a link that a listener turns away dials again until its connect timeout") {
  party left;
  auto crowded = open_listener("127.0.0.1", 0);
  REQUIRE(crowded);
  const auto turn_away = [&] {
    pollfd waiting{crowded->get(), POLLIN, 0};
    REQUIRE(::poll(&waiting, 1, 60'000) == 1);
    REQUIRE(accept_one(crowded->get()).socket);
  };
  SECTION("it opens once the listener has room") {
    const auto port = port_of(*crowded);
    dial(left.system.get(), "127.0.0.1", port, left.owner(), 1, left.settings);
    for (int i = 0; i < 3; ++i)
      turn_away();
    // The test now serves the next connection at the port that turned the earlier ones away.
    pollfd waiting{crowded->get(), POLLIN, 0};
    REQUIRE(::poll(&waiting, 1, 60'000) == 1);
    auto accepted = accept_one(crowded->get());
    REQUIRE(accepted.socket);
    tls_session tls{left.settings.credentials, tls_side::server};
    stranger server{std::move(accepted.socket)};
    shake_hands(server, tls);
    CHECK(left.next<link_opened>().link == 1);
  }
  SECTION("it fails with the reason if the listener has no room") {
    left.settings.connect_timeout = 1ms;
    left.settings.connect_timeout_setting = "connect timeout = 0.001 s";
    dial(left.system.get(), "127.0.0.1", port_of(*crowded), left.owner(), 1, left.settings);
    turn_away();
    CHECK_THAT(left.next<link_closed>().reason, Catch::Contains("before the link was open") ||
                                                    Catch::Contains("within connect timeout = 0.001 s"));
  }
}

TEST_CASE("a message above the size limit closes its link and no other link") {
  connected pair{[](connected& p) { p.right.settings.limits.bytes = 4096; }};
  dial(pair.left.system.get(), "127.0.0.1", pair.listener.port, pair.left.owner(), 8, pair.left.settings);
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

/// The other end of a link whose process then stops: it neither reads nor closes.
stranger stopped_peer(party& right) {
  auto listener = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
  REQUIRE(listener);
  tls_session tls{right.settings.credentials, tls_side::client};
  return call_as_member(listener->port, tls);
}

TEST_CASE("a link that is cut waits neither for a stopped peer nor for queued messages") {
  party right;
  right.settings.close_timeout = 1h;
  const auto peer = stopped_peer(right);
  const auto opened = right.next<link_opened>();
  const bool full = GENERATE(false, true);
  const auto big = numbered(1, 100'000);
  for (int i = 0; full && i < 200; ++i) // 20 MB: more than any socket buffer
    caf::anon_send(opened.handle, big);
  if (full)
    caf::anon_send(opened.handle, close_atom::value); // an orderly close was requested before the cut
  caf::anon_send(opened.handle, cut_atom::value);
  CHECK(right.next<link_closed>().reason.empty());
  CHECK(right.log_lines.warnings() == 0);
}

TEST_CASE("a peer receives the messages sent before a link was cut, and learns of a planned end") {
  connected both;
  caf::anon_send(both.at_left.handle, numbered(5));
  caf::anon_send(both.at_left.handle, cut_atom::value);
  CHECK(both.right.next<link_received>().message.generation() == 5);
  CHECK(both.right.next<link_closed>().reason.empty());
  CHECK(both.left.next<link_closed>().reason.empty());
}

TEST_CASE("a link to a peer that does not read closes once its queue reaches the limit") {
  party right;
  right.settings.queue_bytes = 1 << 20;
  const auto peer = stopped_peer(right);
  auto opened = right.next<link_opened>();
  auto big = numbered(1, 100'000);
  for (int i = 0; i < 2000; ++i) // 200 MB: more than any socket buffer
    caf::anon_send(opened.handle, big);
  CHECK_THAT(right.next<link_closed>().reason, Catch::Contains("too long to read"));
}

TEST_CASE("dialling a port without a listener, or an invalid address, fails with the reason") {
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

} // namespace
} // namespace farandole
