// Seals or opens the chunks of one direction of a connection, in order. Both ends count the chunks and
// derive the nonce from the count. A chunk that is modified, replayed, dropped, reordered or reflected is
// therefore refused: it does not match the next nonce under the key of this direction.
//
// Keys are derived from one secret for each direction. After `chunks_per_key` chunks both ends derive the
// next secret from the current one and erase the current one. 2^20 chunks of 128 KiB are 2^33 AES blocks, a
// third of what TLS 1.3 allows under one key (2^24.5 records of 2^10 blocks, RFC 8446, section 5.5), and
// keep an attacker's advantage below 2^-60.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "collectives/transport/tcp/chunk_aead.hpp"

namespace farandole {

/// Maximum size of the plaintext of a chunk.
inline constexpr std::size_t chunk_bytes_limit = std::size_t{128} << 10;

using chunk_secret = std::array<unsigned char, 32>;

/// Not thread-safe. Each object serves one direction: use either seal() or open().
class chunk_cipher {
public:
  static constexpr std::uint64_t default_chunks_per_key = std::uint64_t{1} << 20;

  chunk_cipher(chunk_suite suite, const chunk_secret& secret,
               std::uint64_t chunks_per_key = default_chunks_per_key);
  ~chunk_cipher();
  chunk_cipher(const chunk_cipher&) = delete;
  chunk_cipher& operator=(const chunk_cipher&) = delete;

  /// `header` is authenticated but not encrypted. `sealed` has chunk_tag_bytes bytes more than `plain`.
  void seal(std::span<const std::byte> header, std::span<const std::byte> plain, std::span<std::byte> sealed);
  /// Returns false if this is not the peer's next chunk. Every later call then fails as well.
  bool open(std::span<const std::byte> header, std::span<const std::byte> sealed, std::span<std::byte> plain);

private:
  chunk_nonce next_nonce();
  void derive();

  const chunk_suite suite_;
  const std::uint64_t chunks_per_key_;
  chunk_secret secret_;
  chunk_nonce base_{}; ///< a chunk's nonce is this value XORed with the number of the chunk
  std::unique_ptr<chunk_aead> aead_;
  std::uint64_t chunks_ = 0; ///< number of chunks sealed or opened so far, under all keys
  bool failed_ = false;
};

} // namespace farandole
