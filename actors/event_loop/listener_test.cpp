// A listener, strangers without the secret, and peers that have the secret and misuse it.
#include <malloc.h>

#include <deque>
#include <thread>

#include "actors/event_loop/link_testing.hpp"

namespace farandole {
namespace {

using namespace testing;
using namespace std::chrono_literals;

TEST_CASE("a peer with the wrong secret gets no link") {
  party right{"right"}, wrong{"wrong"};
  auto listener = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
  REQUIRE(listener);
  dial(wrong.system.get(), "127.0.0.1", listener->port, wrong.owner(), 1, wrong.settings);
  CHECK(wrong.next<link_closed>().link == 1);
  CHECK(right.log_lines.wait_for("secret"));
  CHECK(right.log_lines.warnings() == 1);
  CHECK(right.has_none<link_opened>());
}

TEST_CASE("a peer that does not speak TLS gets no link") {
  party right;
  auto listener = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
  REQUIRE(listener);
  stranger peer{listener->port};
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
  CHECK(right.log_lines.wait_for("does not speak TLS 1.3"));
  CHECK(right.log_lines.warnings() == 1);
  CHECK(right.has_none<link_opened>());
}

TEST_CASE("many strangers cause few warnings, and the last warning states their number") {
  lines log_lines;
  {
    logger log{{.level = log_level::warning}, [&](log_level l, std::string_view t) { log_lines.add(l, t); }};
    party right;
    right.settings.log = &log;
    auto listener = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
    REQUIRE(listener);
    for (int i = 0; i < 40; ++i) {
      stranger peer{listener->port};
      peer.say(std::vector<std::byte>(100, std::byte{0x5a}));
      peer.rest();
    }
    right.self->monitor(listener->handle);
    caf::anon_send(listener->handle, close_atom::value);
    right.next<caf::down_msg>();
    CHECK(log_lines.warnings() == 3);
  }
  CHECK(log_lines.wait_for("37 more like this"));
  CHECK(log_lines.warnings() == 4);
}

TEST_CASE("a peer without a complete hello is closed at the deadline, and the log names the deadline") {
  party right;
  right.settings.handshakes.hello = 20ms;
  auto listener = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
  REQUIRE(listener);
  stranger peer{listener->port};
  SECTION("nothing") {}
  SECTION("one byte") {
    const auto hello = hello_of(right.settings);
    peer.try_to_say(std::span{hello}.first(1)); // on a busy machine the deadline may have passed already
  }
  SECTION("all but one byte") {
    const auto hello = hello_of(right.settings);
    peer.try_to_say(std::span{hello}.first(hello.size() - 1));
  }
  CHECK(peer.rest().empty());
  CHECK(right.log_lines.wait_for("closed: it did not send a TLS hello within 20 ms"));
  CHECK(right.log_lines.warnings() == 1);
}

TEST_CASE("a peer that hangs up in the middle of its hello is closed at once") {
  party right;
  right.settings.handshakes.hello = 10min;
  auto listener = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
  REQUIRE(listener);
  const auto hello = hello_of(right.settings);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4}, hello.size() - 1}) {
    stranger peer{listener->port};
    peer.say(std::span{hello}.first(bytes));
    ::shutdown(peer.socket.get(), SHUT_WR);
    CHECK(peer.rest().empty()); // closed by the listener, long before the deadline
  }
  CHECK(right.log_lines.wait_for("closed: the peer hung up before the link was open"));
}

TEST_CASE("a hello that arrives byte by byte is accepted") {
  party right;
  auto listener = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
  REQUIRE(listener);
  stranger peer{listener->port};
  tls_session tls{right.settings.credentials, tls_side::client};
  std::vector<std::byte> wire, plain;
  REQUIRE(!tls.feed({}, plain, wire));
  for (const auto& data : wire)
    peer.say(std::span{&data, 1});
  shake_hands(peer, tls);
  CHECK(right.next<link_opened>().accepted);
}

TEST_CASE("an incomplete handshake ends at its deadline, or sooner if another connection waits") {
  party right;
  right.settings.handshakes.shaking = 1;
  std::string expected;
  SECTION("at its own deadline") {
    right.settings.handshakes.handshake = 20ms;
    expected = "no proof of the secret within 20 ms";
  }
  SECTION("while another connection waits") {
    right.settings.handshakes.contended = 20ms;
    expected = "no proof of the secret within 20 ms, and others waited";
  }
  auto listener = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
  REQUIRE(listener);
  stranger peer{listener->port};
  peer.say(hello_of(right.settings)); // as an attacker could have recorded it
  REQUIRE(peer.ready(POLLIN));
  party left;
  link_id last = 0;
  const auto call = [&] {
    dial(left.system.get(), "127.0.0.1", listener->port, left.owner(), ++last, left.settings);
    CHECK(left.next<link_opened>().link == last);
  };
  call();
  peer.rest();
  CHECK(right.log_lines.wait_for(expected));
  // The honest peer has the same deadline for its handshake, and calls again if a busy machine makes it too slow.
  while (right.has_none<link_opened>()) {
    if (!left.has_none<link_closed>())
      call();
    std::this_thread::yield();
  }
}

TEST_CASE("thousands of silent strangers keep no member out and take few descriptors") {
  party right;
  right.settings.handshakes.hello =
      10min; // the listener closes them because of their number, not at their deadline
  right.settings.handshakes.connections = 32;
  auto listener = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
  REQUIRE(listener);
  const auto before = open_descriptors();
  std::deque<stranger> silent;
  party left;
  for (int i = 1; i <= 4096; ++i) {
    silent.emplace_back(listener->port);
    if (silent.size() > 200)
      silent.pop_front();
    if (i % 1024 == 0) {
      dial(left.system.get(), "127.0.0.1", listener->port, left.owner(), static_cast<link_id>(i),
           left.settings);
      CHECK(left.next<link_opened>().link == static_cast<link_id>(i));
      CHECK(right.next<link_opened>().accepted);
    }
  }
  CHECK(open_descriptors() < before + 200 + 32 + 2 * 4 + 16);
  CHECK(right.log_lines.wait_for("it was silent, and more than 16 connections from its address were"));
}

TEST_CASE("refused connections leave no memory behind in the owner of a listener") {
  party right;
  lines* log_lines = &right.log_lines;
  right.settings.log = nullptr;
  const auto owner = right.system.get().spawn([](caf::event_based_actor*) -> caf::behavior {
    return {[](const link_opened&) {}, [](const link_received&) {}, [](const link_closed&) {}};
  });
  auto listener = listen(right.system.get(), "127.0.0.1", 0, owner, right.settings);
  REQUIRE(listener);
  const auto refuse = [&](int count) {
    for (int i = 0; i < count; ++i) {
      stranger peer{listener->port};
      peer.say(std::vector<std::byte>(100, std::byte{0x5a}));
      peer.rest();
    }
  };
  refuse(500); // memory that is allocated once and reused is allocated by now
  const auto before = ::mallinfo2().uordblks;
  refuse(3000);
  CHECK(::mallinfo2().uordblks < before + 3000 * 100);
  CHECK(log_lines->warnings() == 0);
  caf::anon_send_exit(owner, caf::exit_reason::user_shutdown);
}

TEST_CASE("a listener at its limit of handshakes lets other connections wait, then serves them") {
  party right;
  right.settings.handshakes.shaking = 2;
  auto listener = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
  REQUIRE(listener);
  auto first = std::make_unique<stranger>(listener->port);
  auto second = std::make_unique<stranger>(listener->port);
  party left;
  dial(left.system.get(), "127.0.0.1", listener->port, left.owner(), 1, left.settings);
  first.reset();
  CHECK(left.next<link_opened>().link == 1);
}

TEST_CASE("a peer that knows the secret and sends malformed data loses its link") {
  party right;
  auto listener = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
  REQUIRE(listener);
  tls_session tls{right.settings.credentials, tls_side::client};
  stranger peer = call_as_member(listener->port, tls);
  std::vector<std::byte> nonsense;
  SECTION("where a frame should begin") {
    nonsense.assign(64, std::byte{0xab});
  }
  SECTION("inside a frame") {
    append_frame(nonsense, std::vector<std::byte>(64, std::byte{0xab}));
  }
  std::vector<std::byte> wire;
  REQUIRE(!tls.seal(nonsense, wire));
  peer.say(wire);
  peer.rest();
  right.next<link_opened>();
  CHECK_FALSE(right.next<link_closed>().reason.empty());
  CHECK(right.has_none<link_received>());
  CHECK(right.log_lines.warnings() == 1);
}

TEST_CASE("listening on a port in use fails with an error that names the address") {
  party right;
  auto first = listen(right.system.get(), "127.0.0.1", 0, right.owner(), right.settings);
  REQUIRE(first);
  auto second = listen(right.system.get(), "127.0.0.1", first->port, right.owner(), right.settings);
  REQUIRE_FALSE(second);
  CHECK_THAT(second.error().text, Catch::Contains("127.0.0.1:" + std::to_string(first->port)));
}

TEST_CASE("the links of a closed listener stay open") {
  connected pair;
  pair.right.self->monitor(pair.listener.handle);
  caf::anon_send(pair.listener.handle, close_atom::value);
  pair.right.next<caf::down_msg>();
  caf::anon_send(pair.at_left.handle, numbered(9));
  CHECK(pair.right.next<link_received>().message.generation() == 9);
}

} // namespace
} // namespace farandole
