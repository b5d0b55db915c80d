#include "collectives/transport/connections/tls.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <string>

namespace farandole {
namespace {

using bytes = std::vector<std::byte>;

bytes of(std::string_view text) {
  auto raw = std::as_bytes(std::span{text});
  return {raw.begin(), raw.end()};
}

std::string text_of(const bytes& raw) {
  return {reinterpret_cast<const char*>(raw.data()), raw.size()};
}

auto credentials(std::string_view secret, std::string_view purpose = link_purpose) {
  return std::make_shared<const tls_credentials>(secret, purpose);
}

struct session_pair {
  tls_session client, server;
  bytes to_server, to_client; // bytes in transit
  bytes at_server, at_client; // received plaintext
  error client_error, server_error;

  session_pair(std::shared_ptr<const tls_credentials> a, std::shared_ptr<const tls_credentials> b)
      : client(std::move(a), tls_side::client), server(std::move(b), tls_side::server) {
    client_error = client.feed({}, at_client, to_server);
  }
  /// Delivers the bytes in transit, at most `limit` bytes at a time.
  void pump(std::size_t limit = SIZE_MAX) {
    while ((!to_server.empty() && !server_error) || (!to_client.empty() && !client_error)) {
      if (auto part = cut(to_server, limit); !part.empty() && !server_error)
        server_error = server.feed(part, at_server, to_client);
      if (auto part = cut(to_client, limit); !part.empty() && !client_error)
        client_error = client.feed(part, at_client, to_server);
    }
  }
  static bytes cut(bytes& from, std::size_t limit) {
    auto n = static_cast<std::ptrdiff_t>(std::min(limit, from.size()));
    bytes part(from.begin(), from.begin() + n);
    from.erase(from.begin(), from.begin() + n);
    return part;
  }
};

TEST_CASE("two sessions with the same secret open and exchange messages") {
  auto job = credentials("the same secret");
  for (std::size_t limit : {SIZE_MAX, std::size_t{1}, std::size_t{100}}) {
    session_pair pair{job, credentials("the same secret")};
    pair.pump(limit);
    REQUIRE(pair.client.state() == tls_state::open);
    REQUIRE(pair.server.state() == tls_state::open);
    std::string long_text(100'000, 'x');
    REQUIRE(!pair.client.seal(of("hello "), pair.to_server));
    REQUIRE(!pair.client.seal(of(long_text), pair.to_server));
    REQUIRE(!pair.server.seal(of("welcome"), pair.to_client));
    pair.pump(limit);
    CHECK(text_of(pair.at_server) == "hello " + long_text);
    CHECK(text_of(pair.at_client) == "welcome");
  }
}

TEST_CASE("the bytes on the wire do not contain the plaintext") {
  session_pair pair{credentials("s"), credentials("s")};
  pair.pump();
  bytes wire;
  REQUIRE(!pair.client.seal(of("a phrase that is easy to find"), wire));
  CHECK(text_of(wire).find("phrase") == std::string::npos);
}

TEST_CASE("a session with a wrong secret neither opens nor decrypts data") {
  session_pair pair{credentials("right"), credentials("wrong")};
  pair.pump();
  CHECK(pair.server.state() == tls_state::failed);
  CHECK(pair.client.state() != tls_state::open);
  CHECK_THAT(pair.server_error.text, Catch::Contains("secret"));
  CHECK(pair.at_server.empty());
  CHECK(pair.at_client.empty());
  bytes wire;
  CHECK(pair.client.seal(of("x"), wire));
  CHECK(wire.empty());
}

TEST_CASE("a session with the same secret for another purpose does not open") {
  session_pair pair{credentials("s"), credentials("s", "another purpose")};
  pair.pump();
  CHECK(pair.server.state() == tls_state::failed);
  CHECK(pair.client.state() != tls_state::open);
}

TEST_CASE("both ends export the same key, and a different key for each label, context and session") {
  std::array<unsigned char, 32> client{}, server{}, other{};
  session_pair pair{credentials("s"), credentials("s")};
  CHECK(pair.client.export_key("label", of("context"), client));
  pair.pump();
  REQUIRE(!pair.client.export_key("label", of("context"), client));
  REQUIRE(!pair.server.export_key("label", of("context"), server));
  CHECK(client == server);
  REQUIRE(!pair.server.export_key("label", of("another"), other));
  CHECK(client != other);
  REQUIRE(!pair.server.export_key("another", of("context"), other));
  CHECK(client != other);
  session_pair second_pair{credentials("s"), credentials("s")};
  second_pair.pump();
  REQUIRE(!second_pair.client.export_key("label", of("context"), other));
  CHECK(client != other);
}

TEST_CASE("garbage or plaintext instead of a handshake fails the session") {
  for (std::string_view said :
       {std::string_view{"GET / HTTP/1.1\r\n\r\n"}, std::string_view{"\0\0\0\0\0\0\0\0\0\0", 10}}) {
    tls_session server{credentials("s"), tls_side::server};
    bytes plain, wire;
    CHECK(server.feed(of(said), plain, wire));
    CHECK(server.state() == tls_state::failed);
    CHECK(plain.empty());
    CHECK(server.feed(of("more"), plain, wire));
  }
}

TEST_CASE("a truncated hello leaves the session in the handshake and yields no data") {
  tls_session client{credentials("s"), tls_side::client};
  bytes hello, plain, wire;
  REQUIRE(!client.feed({}, plain, hello));
  REQUIRE(!hello.empty());
  tls_session server{credentials("s"), tls_side::server};
  REQUIRE(!server.feed(std::span{hello}.first(hello.size() - 1), plain, wire));
  CHECK(server.state() == tls_state::handshaking);
  CHECK(plain.empty());
  CHECK(server.seal(of("x"), wire));
}

TEST_CASE("a changed byte fails the session") {
  session_pair pair{credentials("s"), credentials("s")};
  pair.pump();
  REQUIRE(!pair.client.seal(of("to be spoiled"), pair.to_server));
  pair.to_server.back() ^= std::byte{1};
  pair.pump();
  CHECK(pair.server.state() == tls_state::failed);
  CHECK(pair.at_server.empty());
}

TEST_CASE("a session whose peer finishes is closed, not failed") {
  session_pair pair{credentials("s"), credentials("s")};
  pair.pump();
  REQUIRE(!pair.client.seal(of("last words"), pair.to_server));
  pair.client.finish(pair.to_server);
  pair.pump();
  CHECK(text_of(pair.at_server) == "last words");
  CHECK(pair.server.state() == tls_state::closed);
}

} // namespace

TEST_CASE("a server fails at once on bytes that cannot be a hello and on a hello longer than its record") {
  const auto fed = [](const std::vector<unsigned char>& bytes) {
    tls_session server{credentials("the job's secret"), tls_side::server};
    std::vector<std::byte> plain, wire;
    const auto problem = server.feed(std::as_bytes(std::span{bytes}), plain, wire);
    CHECK(static_cast<bool>(problem) == (server.state() == tls_state::failed));
    CHECK(plain.empty());
    return server.state();
  };
  CHECK(fed({0, 3, 0, 1, 0}) == tls_state::failed); // a record of an unknown type, with 256 bytes to come
  CHECK(fed({23, 3, 3, 64, 0, 1}) == tls_state::failed);          // data before the handshake
  CHECK(fed({22, 3, 1, 0, 4, 1, 0, 63, 0}) == tls_state::failed); // a hello of 16,128 bytes in a record of 4
  CHECK(fed({22, 3, 1, 0, 4, 1, 0, 63}) == tls_state::handshaking); // the record is incomplete
  CHECK(fed({22, 3}) == tls_state::handshaking);
}

TEST_CASE("a hello that arrives byte by byte is answered once it is complete") {
  const auto secret = credentials("the job's secret");
  tls_session client{secret, tls_side::client}, server{secret, tls_side::server};
  std::vector<std::byte> hello, plain, wire;
  REQUIRE_FALSE(client.feed({}, plain, hello));
  for (std::size_t at = 0; at < hello.size(); ++at) {
    CHECK(wire.empty());
    REQUIRE_FALSE(server.feed(std::span{hello}.subspan(at, 1), plain, wire));
  }
  CHECK_FALSE(wire.empty());
  CHECK(server.state() == tls_state::handshaking);
}

} // namespace farandole
