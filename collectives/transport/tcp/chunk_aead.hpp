// Authenticated encryption (AEAD) of one chunk under one key. The implementations by different libraries
// produce the same bytes, so each end uses the fastest one that it has.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace farandole {

enum class chunk_suite : std::uint32_t { aes_128_gcm = 1, chacha20_poly1305 = 2 };

inline constexpr std::size_t chunk_tag_bytes = 16;
inline constexpr std::size_t chunk_nonce_bytes = 12;
inline constexpr std::size_t chunk_key_bytes = 32; ///< AES-128 uses the first half

using chunk_nonce = std::array<unsigned char, chunk_nonce_bytes>;
using chunk_key = std::array<unsigned char, chunk_key_bytes>;

/// Not thread-safe. `sealed` holds the ciphertext, followed by the tag.
class chunk_aead {
public:
  virtual ~chunk_aead() = default;
  /// `sealed` has chunk_tag_bytes bytes more than `plain`; they must not overlap.
  virtual void seal(const chunk_nonce& nonce, std::span<const std::byte> header,
                    std::span<const std::byte> plain, std::span<std::byte> sealed) = 0;
  /// Returns false if the header or the chunk differs from what the peer sealed; `plain` must then not be
  /// used.
  virtual bool open(const chunk_nonce& nonce, std::span<const std::byte> header,
                    std::span<const std::byte> sealed, std::span<std::byte> plain) = 0;
};

/// Implementation by OpenSSL.
std::unique_ptr<chunk_aead> make_openssl_aead(chunk_suite suite, const chunk_key& key);
/// AES-128-GCM by libipsec-mb (Debian package libipsec-mb1). Null if this machine or this build lacks the
/// library.
std::unique_ptr<chunk_aead> make_ipsec_mb_aead(const chunk_key& key);
/// The fastest available implementation.
std::unique_ptr<chunk_aead> make_chunk_aead(chunk_suite suite, const chunk_key& key);

/// Whether this process can use the suite. OpenSSL in FIPS mode refuses ChaCha20-Poly1305.
bool available(chunk_suite suite);
/// The available suite that is faster on this processor. Measures both, which takes about 0.1 ms.
chunk_suite faster_suite();

} // namespace farandole
