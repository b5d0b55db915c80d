#include "actors/event_loop/link_send_queue.hpp"

#include <catch2/catch.hpp>

#include <sys/socket.h>

#include <memory>
#include <optional>

#include "actors/event_loop/framing.hpp"
#include "actors/event_loop/link_testing.hpp"
#include "messages/values/descriptor.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

using progress = link_send_queue::progress;

/// Both ends of a connection whose handshake is over. The peer reads only in received().
struct sealed_connection {
  descriptor own_end, peer_end;
  tls_session own, peer;

  sealed_connection() : sealed_connection(std::make_shared<const tls_credentials>("a secret of a test")) {}
  explicit sealed_connection(const std::shared_ptr<const tls_credentials>& credentials)
      : own(credentials, tls_side::client), peer(credentials, tls_side::server) {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    own_end = descriptor{ends[0]};
    peer_end = descriptor{ends[1]};
    std::vector<std::byte> to_peer, to_own, plain;
    REQUIRE_FALSE(own.feed({}, plain, to_peer));
    while (!to_peer.empty() || !to_own.empty()) {
      REQUIRE_FALSE(peer.feed(std::exchange(to_peer, {}), plain, to_own));
      REQUIRE_FALSE(own.feed(std::exchange(to_own, {}), plain, to_peer));
    }
    REQUIRE(own.state() == tls_state::open);
    REQUIRE(peer.state() == tls_state::open);
  }

  /// The generations of the messages that have arrived; their number names them.
  std::vector<std::uint64_t> received() {
    std::vector<std::byte> wire(1 << 20), plain, answer;
    for (ssize_t got = 0; (got = ::recv(peer_end.get(), wire.data(), wire.size(), 0)) > 0;)
      REQUIRE_FALSE(peer.feed(std::span(wire).first(static_cast<std::size_t>(got)), plain, answer));
    REQUIRE_FALSE(reader.push(plain));
    std::vector<std::uint64_t> numbers;
    while (const auto bytes = reader.next()) {
      const auto message = envelope::parse(*bytes, {});
      REQUIRE(message);
      numbers.push_back(message->generation());
    }
    return numbers;
  }

  frame_reader reader{std::size_t{1} << 26};
};

std::vector<std::uint64_t> up_to(std::uint64_t count) {
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t number = 0; number < count; ++number)
    numbers.push_back(number);
  return numbers;
}

} // namespace

TEST_CASE("messages arrive in order, and no bytes wait afterwards", "[link send queue]") {
  sealed_connection connection;
  link_send_queue queue;
  for (const auto number : up_to(3))
    queue.push(numbered(number));
  CHECK(queue.has_unsealed());
  CHECK_FALSE(queue.has_sealed());
  const auto waiting = queue.waiting_bytes();
  CHECK(waiting == 3 * (numbered(0).bytes().size() + frame_header_bytes));
  REQUIRE_FALSE(queue.seal_some(connection.own));
  CHECK_FALSE(queue.has_unsealed());
  CHECK(queue.has_sealed());
  CHECK(queue.waiting_bytes() > 0);
  CHECK(queue.waiting_bytes() < waiting + 100); // one record for all of them
  CHECK(queue.send(connection.own_end.get()) == progress::done);
  CHECK(queue.waiting_bytes() == 0);
  CHECK_FALSE(queue.has_sealed());
  CHECK(connection.received() == up_to(3));
}

TEST_CASE("a socket that accepts no more blocks the queue, whose sealed bytes are bounded",
          "[link send queue]") {
  sealed_connection connection;
  link_send_queue queue;
  constexpr std::uint64_t count = 400;
  constexpr std::size_t large = 20'000;
  for (const auto number : up_to(count))
    queue.push(numbered(number, large));
  std::vector<std::uint64_t> arrived;
  bool was_blocked = false;
  while (queue.has_unsealed() || queue.has_sealed()) {
    const auto before = queue.waiting_bytes();
    REQUIRE_FALSE(queue.seal_some(connection.own));
    CHECK(queue.has_sealed());
    CHECK(queue.waiting_bytes() < before + 4096); // sealing adds only the headers of records
    if (queue.send(connection.own_end.get()) == progress::done)
      continue;
    was_blocked = true;
    CHECK(queue.has_sealed());
    for (const auto number : connection.received())
      arrived.push_back(number);
  }
  CHECK(was_blocked);
  for (const auto number : connection.received())
    arrived.push_back(number);
  CHECK(arrived == up_to(count));
}

TEST_CASE("only a bounded part of the queue is sealed at a time", "[link send queue]") {
  sealed_connection connection;
  link_send_queue queue;
  for (const auto number : up_to(100))
    queue.push(numbered(number, 20'000));
  REQUIRE_FALSE(queue.seal_some(connection.own));
  CHECK(queue.has_unsealed());
  CHECK(queue.sealed().size() < 400'000);
  const auto once = queue.sealed().size();
  REQUIRE_FALSE(queue.seal_some(connection.own));
  CHECK(queue.sealed().size() == once);
}

TEST_CASE("a closed peer fails the queue, and a new connection begins without its sealed bytes",
          "[link send queue]") {
  sealed_connection connection;
  link_send_queue queue;
  queue.push(numbered(1));
  REQUIRE_FALSE(queue.seal_some(connection.own));
  connection.peer_end = descriptor{};
  CHECK(queue.send(connection.own_end.get()) == progress::failed);
  CHECK(queue.has_sealed());
  queue.forget_sealed();
  CHECK(queue.waiting_bytes() == 0);
  CHECK(queue.send(connection.own_end.get()) == progress::done);
}
