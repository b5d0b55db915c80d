// Both ends of a connection in one thread, and somebody in the middle of it.
#include "collectives/transport/tcp/tcp_channel.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>

#include <algorithm>

using namespace farandole;

namespace {

using bytes = std::vector<std::byte>;

bytes contents(std::size_t length) {
  bytes made(length);
  for (std::size_t at = 0; at < length; ++at)
    made[at] = static_cast<std::byte>(at * 7 % 253);
  return made;
}

const channel_keys keys_of_one{chunk_suite::aes_128_gcm, {1}, {2}};
const channel_keys keys_of_other{chunk_suite::aes_128_gcm, {2}, {1}};

struct ends {
  int sockets[2] = {-1, -1};
  std::unique_ptr<tcp_channel> own, other;

  explicit ends(std::span<const std::byte> early = {}) {
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets) == 0);
    own = std::make_unique<tcp_channel>(descriptor{sockets[0]}, keys_of_one, std::span<const std::byte>{});
    other = std::make_unique<tcp_channel>(descriptor{sockets[1]}, keys_of_other, early);
  }
  void run() {
    for (bool moved = true; moved;) {
      moved = own->write();
      moved = other->write() || moved;
      moved = own->read() || moved;
      moved = other->read() || moved;
    }
  }
};

/// What the one end has put on the wire, taken off it.
bytes taken(int socket) {
  bytes wire(1 << 20);
  const ssize_t got = ::recv(socket, wire.data(), wire.size(), MSG_DONTWAIT);
  wire.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return wire;
}

void put(int socket, const bytes& wire) {
  REQUIRE(::send(socket, wire.data(), wire.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(wire.size()));
}

} // namespace

TEST_CASE("channel: what could not be sent before the connection broke stays unsent") {
  ends pair;
  const bytes message = contents(1000);
  message_ticket sealed;
  while (!pair.own->wants_to_write())
    pair.own->send(message_phase::exchange, 0, message, sealed);
  CHECK(sealed.pending == 0); // its memory is not needed any more
  pair.other->close();
  pair.own->write();
  CHECK_FALSE(pair.own->end().reason.empty());
  CHECK_FALSE(pair.own->wants_to_write());
  CHECK(pair.own->unsent());
}

TEST_CASE("channel: messages of all lengths go both ways at once") {
  ends pair;
  const std::vector<std::size_t> lengths{0, 1, 4096, chunk_bytes_limit, chunk_bytes_limit + 1, 5'000'000, 3};
  message_ticket sends, receives;
  std::vector<bytes> remote(lengths.size()), back(lengths.size());
  std::vector<bytes> messages;
  for (const std::size_t length : lengths)
    messages.push_back(contents(length));
  for (std::size_t at = 0; at < lengths.size(); ++at) {
    remote[at].resize(lengths[at]);
    back[at].resize(lengths[at]);
    pair.own->send(message_phase::gather, 9, messages[at], sends);
    pair.other->send(message_phase::gather, 9, messages[at], sends);
    pair.own->receive(message_phase::gather, 9, back[at], receives);
    pair.other->receive(message_phase::gather, 9, remote[at], receives);
  }
  pair.run();
  CHECK(sends.pending == 0);
  CHECK(receives.pending == 0);
  CHECK(remote == messages);
  CHECK(back == messages);
}

TEST_CASE("channel: a small message is one write of header, ciphertext and tag") {
  ends pair;
  message_ticket ticket;
  pair.own->send(message_phase::exchange, 1, contents(4), ticket);
  CHECK(ticket.pending == 0);
  CHECK(taken(pair.sockets[1]).size() == chunk_header::size + 4 + chunk_tag_bytes);
}

TEST_CASE("channel: what nobody has asked for stays in the connection, and is taken when somebody does") {
  ends pair;
  message_ticket sends, receives;
  const bytes message = contents(1000);
  bytes first(1000), second(1000);
  pair.other->receive(message_phase::scatter, 2, second, receives);
  pair.own->send(message_phase::scatter, 1, message, sends);
  pair.own->send(message_phase::scatter, 2, message, sends);
  pair.run();
  CHECK(receives.pending == 1);
  CHECK_FALSE(pair.other->wants_to_read());
  CHECK(second == bytes(1000));
  pair.other->receive(message_phase::scatter, 1, first, receives);
  CHECK(pair.other->holds_chunk());
  pair.run();
  CHECK(receives.pending == 0);
  CHECK(first == message);
  CHECK(second == message);
}

TEST_CASE("channel: a chunk that was changed, replayed, reflected or cut ends the connection") {
  message_ticket sends, receives;
  const bytes message = contents(100);
  const auto outcome_of = [&](auto&& tamper) {
    ends pair;
    bytes target(100);
    pair.other->receive(message_phase::tree, 1, target, receives);
    pair.other->receive(message_phase::tree, 1, target, receives);
    pair.own->send(message_phase::tree, 1, message, sends);
    bytes wire = taken(pair.sockets[1]);
    tamper(pair, wire);
    if (!wire.empty())
      put(pair.sockets[0], wire);
    pair.run();
    return pair.other->end().reason;
  };
  const std::string unsealed = "what came is not what it sealed";
  CHECK(outcome_of([](ends&, bytes&) {}).empty());
  CHECK(outcome_of([](ends&, bytes& wire) { wire.back() ^= std::byte{1}; }) == unsealed);
  CHECK(outcome_of([](ends&, bytes& wire) { wire[chunk_header::size] ^= std::byte{1}; }) == unsealed);
  CHECK(outcome_of([](ends&, bytes& wire) {
          const bytes once = wire;
          wire.insert(wire.end(), once.begin(), once.end());
        }) == unsealed);
  CHECK(outcome_of([&](ends& pair, bytes& wire) {
          pair.other->send(message_phase::tree, 1, message, sends);
          wire = taken(pair.sockets[0]); // its own words
        }) == unsealed);
  CHECK(outcome_of([](ends&, bytes& wire) { wire[0] ^= std::byte{1}; }) == "it sent what is no chunk");
  for (std::size_t at = 0; at < chunk_header::size; ++at) {
    INFO("byte " << at << " of the header");
    const auto reason = outcome_of([at](ends&, bytes& wire) { wire[at] ^= std::byte{1}; });
    CHECK((reason == unsealed || reason == "it sent what is no chunk"));
  }
  CHECK(outcome_of([](ends& pair, bytes& wire) {
          wire.pop_back();
          put(pair.sockets[0], wire);
          wire.clear();
          ::shutdown(pair.sockets[0], SHUT_WR);
        }) == "it has closed the connection");
}

TEST_CASE("channel: a member that sends another length than was agreed is told so") {
  ends pair;
  message_ticket sends, receives;
  bytes target(50);
  pair.other->receive(message_phase::tree, 1, target, receives);
  pair.own->send(message_phase::tree, 1, contents(51), sends);
  pair.run();
  CHECK(pair.other->end().reason == "it sent 51 bytes where 50 were expected");
  CHECK(pair.other->end().cheated);
  CHECK(receives.pending == 1);
}

TEST_CASE("channel: a goodbye comes through between two chunks, and behind what nobody asks for any more") {
  ends pair;
  message_ticket sends, receives;
  const bytes large = contents(20'000'000);
  pair.own->send(message_phase::gather, 1, large, sends);
  REQUIRE(sends.pending == 1); // more than the connection takes at once
  pair.own->say_goodbye({5, {}});
  pair.run();
  CHECK_FALSE(pair.other->heard_goodbye());
  pair.other->seek_goodbye();
  pair.run();
  CHECK(pair.other->heard_goodbye());
  CHECK(pair.other->heard() == goodbye{5, {}}.encode());
}

TEST_CASE("channel: chunks that came with the handshake are not lost") {
  bytes early;
  {
    ends pair;
    message_ticket sends;
    pair.own->send(message_phase::barrier, 1, {}, sends);
    early = taken(pair.sockets[1]);
  }
  ends pair{early};
  message_ticket receives;
  pair.other->receive(message_phase::barrier, 1, {}, receives);
  pair.other->read();
  CHECK(receives.pending == 0);
}
