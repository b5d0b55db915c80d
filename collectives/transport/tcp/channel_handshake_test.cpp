#include "collectives/transport/tcp/channel_handshake.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <memory>
#include <new>
#include <optional>

#include "collectives/transport/tcp/tcp_address.hpp"
#include "collectives/transport/tcp/without_chacha_testing.hpp"

using namespace farandole;

namespace {

using bytes = std::vector<std::byte>;

const channel_group set_of_three{7, 3, 0, 3, 0};

channel_group as(std::int32_t rank, channel_group group = set_of_three) {
  group.rank = rank;
  return group;
}

auto secret(std::string_view text = "the job's secret", std::string_view purpose = data_purpose) {
  return std::make_shared<const tls_credentials>(text, purpose);
}

/// A caller and an answerer, and the bytes between them.
struct connection {
  std::unique_ptr<channel_handshake> caller, answerer;
  bytes to_answerer{}, to_caller{};
  bytes said_by_caller{}; ///< all bytes of the caller
  std::string caller_error{}, answerer_error{};

  /// Delivers the bytes in transit, `limit` bytes at a time, until neither end sends more.
  void run(std::size_t limit = SIZE_MAX) {
    REQUIRE(caller->feed({}, to_answerer));
    while (!to_answerer.empty() || !to_caller.empty()) {
      said_by_caller.insert(said_by_caller.end(), to_answerer.begin(), to_answerer.end());
      carry(to_answerer, *answerer, to_caller, answerer_error, limit);
      carry(to_caller, *caller, to_answerer, caller_error, limit);
    }
  }
  static void carry(bytes& wire, channel_handshake& to, bytes& back, std::string& problem,
                    std::size_t limit) {
    bytes all = std::exchange(wire, {});
    for (std::size_t at = 0; at < all.size() && problem.empty();) {
      const auto part = std::span{all}.subspan(at, std::min(limit, all.size() - at));
      const auto taken = to.feed(part, back);
      if (!taken)
        problem = taken.error().text;
      at += part.size();
    }
  }
};

connection between(const channel_group& from, std::int32_t peer, const channel_group& to,
                   chunk_suite caller_prefers = chunk_suite::aes_128_gcm,
                   chunk_suite answerer_prefers = chunk_suite::aes_128_gcm) {
  return {channel_handshake::call(secret(), from, caller_prefers, peer),
          channel_handshake::answer(secret(), to, answerer_prefers)};
}

} // namespace

TEST_CASE("handshake: two members of a set authenticate each other and share a secret for each direction") {
  for (const std::size_t limit : {SIZE_MAX, std::size_t{1}, std::size_t{100}}) {
    auto pair = between(as(2), 1, as(1));
    pair.run(limit);
    REQUIRE(pair.caller->done());
    REQUIRE(pair.answerer->done());
    CHECK(pair.answerer->peer() == 2);
    const channel_keys &caller_keys = pair.caller->keys(), &answerer_keys = pair.answerer->keys();
    CHECK(caller_keys.sealing == answerer_keys.opening);
    CHECK(caller_keys.opening == answerer_keys.sealing);
    CHECK(caller_keys.sealing != caller_keys.opening);
    CHECK(caller_keys.suite == answerer_keys.suite);
    auto again = between(as(2), 1, as(1));
    again.run();
    CHECK(again.caller->keys().sealing != caller_keys.sealing);
  }
}

TEST_CASE("handshake: bytes after the last handshake message are left to the caller of feed()") {
  auto pair = between(as(2), 1, as(1));
  const bytes chunk(50, std::byte{42});
  REQUIRE(pair.caller->feed({}, pair.to_answerer));
  REQUIRE(pair.answerer->feed(std::exchange(pair.to_answerer, {}), pair.to_caller));
  REQUIRE(pair.caller->feed(std::exchange(pair.to_caller, {}), pair.to_answerer));
  auto last = std::exchange(pair.to_answerer, {});
  const std::size_t own = last.size();
  last.insert(last.end(), chunk.begin(), chunk.end());
  const auto taken = pair.answerer->feed(last, pair.to_caller);
  REQUIRE(taken);
  CHECK(pair.answerer->done());
  CHECK(*taken == own);
}

TEST_CASE("handshake: AES is chosen only if both ends prefer it") {
  const auto suite = [](chunk_suite caller_prefers, chunk_suite answerer_prefers) {
    auto pair = between(as(2), 1, as(1), caller_prefers, answerer_prefers);
    pair.run();
    CHECK(pair.caller->keys().suite == pair.answerer->keys().suite);
    return pair.caller->keys().suite;
  };
  const auto aes = chunk_suite::aes_128_gcm, chacha = chunk_suite::chacha20_poly1305;
  CHECK(suite(aes, aes) == aes);
  CHECK(suite(aes, chacha) == chacha);
  CHECK(suite(chacha, aes) == chacha);
  CHECK(suite(chacha, chacha) == chacha);
}

TEST_CASE(
    "handshake: a member of another generation, set, cross-host group or size is refused with the reason") {
  struct variant {
    channel_group group;
    const char* says;
  };
  for (const auto& [group, says] :
       {variant{{6, 3, 0, 3, 2}, "generation 6"}, variant{{7, 2, 0, 3, 2}, "another process set"},
        variant{{7, 3, 1, 3, 2}, "another process set"}, variant{{7, 3, 0, 4, 2}, "another process set"}}) {
    auto pair = between(group, 1, as(1));
    pair.run();
    CHECK_FALSE(pair.answerer->done());
    CHECK_FALSE(pair.caller->done());
    CHECK_THAT(pair.answerer_error, Catch::Contains(says));
  }
}

TEST_CASE("handshake: a connection that reaches another member, or its own caller, is refused") {
  auto elsewhere = between(as(2), 1, as(0));
  elsewhere.run();
  CHECK_FALSE(elsewhere.answerer->done());
  CHECK_THAT(elsewhere.answerer_error, Catch::Contains("from rank 2 to rank 1"));
  auto reflected = between(as(2), 1, as(2));
  reflected.run();
  CHECK_FALSE(reflected.answerer->done());
  // Swapped roles: a lower rank calls a higher rank.
  auto swapped = between(as(2, {7, 3, 0, 4, 0}), 0, as(3, {7, 3, 0, 4, 0}));
  swapped.run();
  CHECK_FALSE(swapped.answerer->done());
}

TEST_CASE("handshake: a wrong secret, or the job's secret for links, is refused") {
  for (const auto& credentials : {secret("another secret"), secret("the job's secret", link_purpose)}) {
    connection pair{channel_handshake::call(credentials, as(2), chunk_suite::aes_128_gcm, 1),
                    channel_handshake::answer(secret(), as(1), chunk_suite::aes_128_gcm)};
    pair.run();
    CHECK_FALSE(pair.answerer->done());
    CHECK_FALSE(pair.answerer->proved());
    CHECK_THAT(pair.answerer_error, Catch::Contains("secret"));
  }
}

TEST_CASE("handshake: a replayed connection is refused") {
  auto pair = between(as(2), 1, as(1));
  pair.run();
  REQUIRE(pair.answerer->done());
  auto again = channel_handshake::answer(secret(), as(1), chunk_suite::aes_128_gcm);
  bytes back;
  const auto taken = again->feed(pair.said_by_caller, back);
  CHECK_FALSE(taken);
  CHECK_FALSE(again->done());
  CHECK_FALSE(again->proved());
}

TEST_CASE("handshake: garbage is refused at its first bytes, and an incomplete hello is not answered") {
  for (std::string_view said : {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\xff\xff", "\x16\x04"}) {
    auto answerer = channel_handshake::answer(secret(), as(1), chunk_suite::aes_128_gcm);
    bytes back;
    CHECK_FALSE(answerer->feed(std::as_bytes(std::span{said}), back));
  }
  auto pair = between(as(2), 1, as(1));
  REQUIRE(pair.caller->feed({}, pair.to_answerer));
  REQUIRE(
      pair.answerer->feed(std::span{pair.to_answerer}.first(pair.to_answerer.size() - 1), pair.to_caller));
  CHECK(pair.to_caller.empty());
  CHECK_FALSE(pair.answerer->done());
}

TEST_CASE("handshake: malformed addresses are refused") {
  for (const tcp_address& address : {tcp_address{"10.0.0.1", 4711}, tcp_address{"fd00::1", 65535}}) {
    const auto parsed = tcp_address::parse(address.text());
    REQUIRE(parsed);
    CHECK(*parsed == address);
  }
  for (std::string_view text : {"", ":", ":1", "10.0.0.1", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536",
                                "10.0.0.1:-1", "10.0.0.1:1x", "10.0.0.1: 1", "a.host:1", "[]:1", "1.2.3:4"})
    CHECK_FALSE(tcp_address::parse(text));
  CHECK_FALSE(tcp_address::parse(std::string(100, '1') + ":1"));
}

TEST_CASE("handshake: both ends use AES if either end supports only AES") {
  const auto aes = chunk_suite::aes_128_gcm, chacha = chunk_suite::chacha20_poly1305;
  const auto credentials = secret(); // TLS itself uses the unmodified OpenSSL
  const auto end = [&](bool calls, bool only_aes) {
    std::optional<testing::openssl_without_chacha> fips;
    if (only_aes)
      fips.emplace();
    const chunk_suite preferred = only_aes ? aes : chacha;
    return calls ? channel_handshake::call(credentials, as(2), preferred, 1)
                 : channel_handshake::answer(credentials, as(1), preferred);
  };
  for (const bool caller_has_aes_alone : {true, false}) {
    connection pair{end(true, caller_has_aes_alone), end(false, !caller_has_aes_alone)};
    pair.run();
    REQUIRE(pair.caller->done());
    REQUIRE(pair.answerer->done());
    CHECK(pair.caller->keys().suite == aes);
    CHECK(pair.answerer->keys().suite == aes);
  }
}

TEST_CASE("handshake: the destructor of the keys clears their memory") {
  alignas(channel_keys) std::array<unsigned char, sizeof(channel_keys)> memory{};
  auto* keys = new (memory.data()) channel_keys{chunk_suite::aes_128_gcm, {1, 2, 3}, {4, 5, 6}};
  CHECK(std::any_of(memory.begin() + 4, memory.end(), [](auto byte) { return byte != 0; }));
  std::destroy_at(keys);
  CHECK(std::all_of(memory.begin() + 4, memory.end(), [](auto byte) { return byte == 0; }));
}
