// Both ends of a connection in one thread. The test can change the bytes between the ends.
#include "collectives/transport/tcp/tcp_channel.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>

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

struct channel_pair {
  int sockets[2] = {-1, -1};
  std::unique_ptr<tcp_channel> own, other;

  explicit channel_pair(std::span<const std::byte> early = {}) {
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

/// Takes the bytes that one end has written off the wire.
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

TEST_CASE("channel: a message that was not sent before the connection broke stays unsent") {
  channel_pair pair;
  const bytes message = contents(1000);
  message_ticket sealed;
  while (!pair.own->wants_to_write())
    pair.own->send(message_phase::exchange, 0, message, sealed);
  CHECK(sealed.pending == 0); // the message's memory is no longer needed
  pair.other->close();
  pair.own->write();
  CHECK_FALSE(pair.own->end().reason.empty());
  CHECK_FALSE(pair.own->wants_to_write());
  CHECK(pair.own->unsent());
}

TEST_CASE("channel: messages of all lengths pass in both directions at once") {
  channel_pair pair;
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

TEST_CASE("channel: a small message is sent in one write of header, ciphertext and tag") {
  channel_pair pair;
  message_ticket ticket;
  pair.own->send(message_phase::exchange, 1, contents(4), ticket);
  CHECK(ticket.pending == 0);
  CHECK(taken(pair.sockets[1]).size() == chunk_header::size + 4 + chunk_tag_bytes);
}

TEST_CASE("channel: a message stays in the connection until its receive is posted") {
  channel_pair pair;
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

TEST_CASE("channel: a changed, replayed, reflected or truncated chunk ends the connection") {
  message_ticket sends, receives;
  const bytes message = contents(100);
  const auto outcome_of = [&](auto&& tamper) {
    channel_pair pair;
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
  const std::string unsealed = "its data does not authenticate: it was changed on the way";
  CHECK(outcome_of([](channel_pair&, bytes&) {}).empty());
  CHECK(outcome_of([](channel_pair&, bytes& wire) { wire.back() ^= std::byte{1}; }) == unsealed);
  CHECK(outcome_of([](channel_pair&, bytes& wire) { wire[chunk_header::size] ^= std::byte{1}; }) == unsealed);
  CHECK(outcome_of([](channel_pair&, bytes& wire) {
          const bytes once = wire;
          wire.insert(wire.end(), once.begin(), once.end());
        }) == unsealed);
  CHECK(outcome_of([&](channel_pair& pair, bytes& wire) {
          pair.other->send(message_phase::tree, 1, message, sends);
          wire = taken(pair.sockets[0]); // the receiver's own chunk
        }) == unsealed);
  CHECK(outcome_of([](channel_pair&, bytes& wire) { wire[0] ^= std::byte{1}; }) ==
        "it sent a malformed chunk");
  for (std::size_t at = 0; at < chunk_header::size; ++at) {
    INFO("byte " << at << " of the header");
    const auto reason = outcome_of([at](channel_pair&, bytes& wire) { wire[at] ^= std::byte{1}; });
    CHECK((reason == unsealed || reason == "it sent a malformed chunk"));
  }
  CHECK(outcome_of([](channel_pair& pair, bytes& wire) {
          wire.pop_back();
          put(pair.sockets[0], wire);
          wire.clear();
          ::shutdown(pair.sockets[0], SHUT_WR);
        }) == "it has closed the connection");
}

TEST_CASE("channel: a message of an unexpected length ends the connection with both lengths") {
  const auto sent = GENERATE(std::size_t{49}, std::size_t{51});
  channel_pair pair;
  message_ticket sends, receives;
  bytes target(50);
  pair.other->receive(message_phase::tree, 1, target, receives);
  pair.own->send(message_phase::tree, 1, contents(sent), sends);
  pair.run();
  CHECK(pair.other->end().reason == "it sent " + std::to_string(sent) + " bytes where 50 were expected");
  CHECK(pair.other->end().cheated);
  CHECK(receives.pending == 1);
}

TEST_CASE("channel: a goodbye arrives between two chunks, and after messages without a receive") {
  channel_pair pair;
  message_ticket sends, receives;
  const bytes large = contents(20'000'000);
  pair.own->send(message_phase::gather, 1, large, sends);
  REQUIRE(sends.pending == 1); // more bytes than the connection takes at once
  pair.own->say_goodbye({5, {}});
  pair.run();
  CHECK_FALSE(pair.other->heard_goodbye());
  pair.other->seek_goodbye();
  pair.run();
  CHECK(pair.other->heard_goodbye());
  CHECK(pair.other->heard() == goodbye{5, {}}.encode());
}

TEST_CASE("channel: chunks that arrive together with the handshake are not lost") {
  bytes early;
  {
    channel_pair pair;
    message_ticket sends;
    pair.own->send(message_phase::barrier, 1, {}, sends);
    early = taken(pair.sockets[1]);
  }
  channel_pair pair{early};
  message_ticket receives;
  pair.other->receive(message_phase::barrier, 1, {}, receives);
  pair.other->read();
  CHECK(receives.pending == 0);
}
