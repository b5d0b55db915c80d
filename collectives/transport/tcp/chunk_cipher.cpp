#include "collectives/transport/tcp/chunk_cipher.hpp"

#include <openssl/crypto.h>

#include <algorithm>
#include <cassert>

#include "collectives/transport/connections/tls.hpp"

namespace farandole {

chunk_cipher::chunk_cipher(chunk_suite suite, const chunk_secret& secret, std::uint64_t chunks_per_key)
    : suite_(suite), chunks_per_key_(chunks_per_key), secret_(secret) {
  assert(chunks_per_key > 0 && chunks_per_key <= default_chunks_per_key);
  derive();
}

chunk_cipher::~chunk_cipher() {
  OPENSSL_cleanse(secret_.data(), secret_.size());
}

/// Derives key and nonce from the current secret and replaces it with the next secret. The current secret
/// cannot be computed from the next one.
void chunk_cipher::derive() {
  chunk_key key{};
  derive_key(secret_, "farandole chunk key", key);
  derive_key(secret_, "farandole chunk nonce", base_);
  chunk_secret next{};
  derive_key(secret_, "farandole next chunk secret", next);
  secret_ = next;
  aead_ = make_chunk_aead(suite_, key);
  OPENSSL_cleanse(key.data(), key.size());
  OPENSSL_cleanse(next.data(), next.size());
}

chunk_nonce chunk_cipher::next_nonce() {
  if (chunks_ != 0 && chunks_ % chunks_per_key_ == 0)
    derive();
  chunk_nonce nonce = base_;
  for (std::size_t at = 0; at < sizeof chunks_; ++at)
    nonce[nonce.size() - 1 - at] ^= static_cast<unsigned char>(chunks_ >> (8 * at));
  ++chunks_;
  assert(chunks_ != 0);
  return nonce;
}

void chunk_cipher::seal(std::span<const std::byte> header, std::span<const std::byte> plain,
                        std::span<std::byte> sealed) {
  const chunk_nonce nonce = next_nonce(); // may change the key, so it comes before the use of aead_
  aead_->seal(nonce, header, plain, sealed);
}

bool chunk_cipher::open(std::span<const std::byte> header, std::span<const std::byte> sealed,
                        std::span<std::byte> plain) {
  if (failed_ || sealed.size() != plain.size() + chunk_tag_bytes) {
    failed_ = true;
    return false;
  }
  const chunk_nonce nonce = next_nonce();
  failed_ = !aead_->open(nonce, header, sealed, plain);
  return !failed_;
}

} // namespace farandole
