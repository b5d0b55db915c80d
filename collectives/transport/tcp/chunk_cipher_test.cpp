#include "collectives/transport/tcp/chunk_cipher.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <vector>

#include "collectives/transport/tcp/chunk_header.hpp"
#include "collectives/transport/tcp/without_chacha_testing.hpp"

using namespace farandole;

namespace {

using bytes = std::vector<std::byte>;

bytes contents(std::size_t length, unsigned seed = 1) {
  bytes made(length);
  for (std::size_t at = 0; at < length; ++at)
    made[at] = static_cast<std::byte>((at * 31 + seed) % 251);
  return made;
}

const chunk_secret secret = {1, 2, 3};
const chunk_secret other_secret = {3, 2, 1};

bytes sealed_by(chunk_cipher& cipher, const bytes& header, const bytes& plain) {
  bytes sealed(plain.size() + chunk_tag_bytes);
  cipher.seal(header, plain, sealed);
  return sealed;
}

bool opens(chunk_cipher& cipher, const bytes& header, const bytes& sealed, const bytes& plain) {
  bytes opened(plain.size());
  return cipher.open(header, sealed, opened) && opened == plain;
}

const bytes header = contents(chunk_header::size, 7);
const auto suites = {chunk_suite::aes_128_gcm, chunk_suite::chacha20_poly1305};

} // namespace

TEST_CASE("chunks: both libraries give the same bytes and open each other's chunks") {
  const chunk_key key = {9, 8, 7};
  auto fast = make_ipsec_mb_aead(key);
  if (!fast)
    return; // a machine without libipsec-mb: there is one library only
  auto slow = make_openssl_aead(chunk_suite::aes_128_gcm, key);
  for (const std::size_t length : {0UL, 1UL, 15UL, 16UL, 17UL, 1000UL, 65'537UL, chunk_bytes_limit}) {
    const chunk_nonce nonce = {static_cast<unsigned char>(length), 5};
    const bytes plain = contents(length);
    bytes part(length + chunk_tag_bytes), two(length + chunk_tag_bytes), opened(length);
    fast->seal(nonce, header, plain, part);
    slow->seal(nonce, header, plain, two);
    CHECK(part == two);
    CHECK(fast->open(nonce, header, two, opened));
    CHECK(opened == plain);
    part.back() ^= std::byte{1};
    CHECK_FALSE(fast->open(nonce, header, part, opened));
    CHECK_FALSE(slow->open(nonce, header, part, opened));
  }
}

TEST_CASE("chunks: sealed chunks open in order across many changes of the key") {
  for (const chunk_suite suite : suites) {
    chunk_cipher sealer{suite, secret, 3}, opener{suite, secret, 3};
    for (unsigned count = 0; count < 20; ++count) {
      const bytes plain = contents(count * 100, count);
      CHECK(opens(opener, header, sealed_by(sealer, header, plain), plain));
    }
  }
}

TEST_CASE("chunks: sealing the same bytes gives different ciphertext each time and under each key") {
  chunk_cipher sealer{chunk_suite::aes_128_gcm, secret, 2};
  const bytes plain = contents(64);
  std::vector<bytes> all;
  for (int count = 0; count < 6; ++count)
    all.push_back(sealed_by(sealer, header, plain));
  std::sort(all.begin(), all.end());
  CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
}

TEST_CASE("chunks: a chunk does not open if the ends change their keys at different times") {
  chunk_cipher sealer{chunk_suite::aes_128_gcm, secret, 2}, opener{chunk_suite::aes_128_gcm, secret, 3};
  const bytes plain = contents(64);
  for (int count = 0; count < 2; ++count)
    CHECK(opens(opener, header, sealed_by(sealer, header, plain), plain));
  CHECK_FALSE(opens(opener, header, sealed_by(sealer, header, plain), plain));
}

TEST_CASE("chunks: any chunk but the next one of this direction is refused, and so are all later chunks") {
  for (const chunk_suite suite : suites) {
    const bytes plain = contents(100);
    chunk_cipher sealer{suite, secret};
    const bytes first = sealed_by(sealer, header, plain), second = sealed_by(sealer, header, plain);
    const auto refuses = [&](const bytes& head, const bytes& sealed, const chunk_secret& key = secret) {
      chunk_cipher opener{suite, key};
      bytes opened(plain.size());
      const bool refused = !opener.open(head, sealed, opened);
      return refused && !opener.open(header, first, opened);
    };
    for (std::size_t at = 0; at < first.size(); at += 13) { // ciphertext and tag
      bytes changed = first;
      changed[at] ^= std::byte{0x10};
      CHECK(refuses(header, changed));
    }
    for (std::size_t at = 0; at < header.size(); ++at) {
      bytes changed = header;
      changed[at] ^= std::byte{1};
      CHECK(refuses(changed, first));
    }
    CHECK(refuses(header, second));                                // out of order
    CHECK(refuses(header, bytes(first.begin(), first.end() - 1))); // truncated
    CHECK(refuses(header, bytes{}));
    chunk_cipher reflected{suite, other_secret};
    CHECK(refuses(header, sealed_by(reflected, header, plain))); // of the other direction
    chunk_cipher opener{suite, secret};
    CHECK(opens(opener, header, first, plain));
    CHECK_FALSE(opens(opener, header, first, plain)); // replayed
  }
}

TEST_CASE("chunks: a header is accepted only in the form that members write") {
  const auto decoded = [](chunk_header header) { return chunk_header::decode(header.encode()); };
  for (const std::uint64_t left : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{chunk_bytes_limit},
                                   std::uint64_t{chunk_bytes_limit} + 1, std::uint64_t{1} << 40}) {
    const auto header = chunk_header::of(message_phase::gather, 77, left);
    REQUIRE(decoded(header));
    CHECK(*decoded(header) == header);
    CHECK(header.bytes <= chunk_bytes_limit);
  }
  CHECK_FALSE(decoded({5, message_phase::gather, 0, 4}));
  CHECK_FALSE(decoded({4, message_phase::gather, 0, 5}));
  CHECK_FALSE(decoded({chunk_bytes_limit + 1, message_phase::gather, 0, chunk_bytes_limit + 1}));
  CHECK_FALSE(decoded({4, message_phase::hello, 0, 4}));
  CHECK_FALSE(decoded({4, static_cast<message_phase>(200), 0, 4}));
}

TEST_CASE("chunks: AES is chosen if OpenSSL refuses ChaCha20-Poly1305, as in FIPS mode") {
  CHECK(available(chunk_suite::chacha20_poly1305));
  {
    const testing::openssl_without_chacha fips;
    CHECK_FALSE(available(chunk_suite::chacha20_poly1305));
    CHECK(available(chunk_suite::aes_128_gcm));
    CHECK(faster_suite() == chunk_suite::aes_128_gcm);
  }
  CHECK(available(chunk_suite::chacha20_poly1305));
}
