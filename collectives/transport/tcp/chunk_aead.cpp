#include "collectives/transport/tcp/chunk_aead.hpp"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <vector>

namespace farandole {
namespace {

unsigned char* bytes_of(std::byte* memory) {
  return reinterpret_cast<unsigned char*>(memory);
}
const unsigned char* bytes_of(const std::byte* memory) {
  return reinterpret_cast<const unsigned char*>(memory);
}

const EVP_CIPHER* cipher_of(chunk_suite suite) {
  return suite == chunk_suite::aes_128_gcm ? EVP_aes_128_gcm() : EVP_chacha20_poly1305();
}

class openssl_aead : public chunk_aead {
public:
  openssl_aead(chunk_suite suite, const chunk_key& key)
      : seals_(EVP_CIPHER_CTX_new()), opens_(EVP_CIPHER_CTX_new()) {
    const EVP_CIPHER* cipher = cipher_of(suite);
    require(EVP_EncryptInit_ex(seals_, cipher, nullptr, key.data(), nullptr));
    require(EVP_DecryptInit_ex(opens_, cipher, nullptr, key.data(), nullptr));
  }
  ~openssl_aead() override {
    EVP_CIPHER_CTX_free(seals_);
    EVP_CIPHER_CTX_free(opens_);
  }
  openssl_aead(const openssl_aead&) = delete;
  openssl_aead& operator=(const openssl_aead&) = delete;

  void seal(const chunk_nonce& nonce, std::span<const std::byte> header, std::span<const std::byte> plain,
            std::span<std::byte> sealed) override {
    assert(sealed.size() == plain.size() + chunk_tag_bytes);
    int length = 0;
    require(EVP_EncryptInit_ex(seals_, nullptr, nullptr, nullptr, nonce.data()));
    require(EVP_EncryptUpdate(seals_, nullptr, &length, bytes_of(header.data()),
                              static_cast<int>(header.size())));
    if (!plain.empty())
      require(EVP_EncryptUpdate(seals_, bytes_of(sealed.data()), &length, bytes_of(plain.data()),
                                static_cast<int>(plain.size())));
    require(EVP_EncryptFinal_ex(seals_, bytes_of(sealed.data()) + plain.size(), &length));
    require(
        EVP_CIPHER_CTX_ctrl(seals_, EVP_CTRL_AEAD_GET_TAG, chunk_tag_bytes, sealed.data() + plain.size()));
  }

  bool open(const chunk_nonce& nonce, std::span<const std::byte> header, std::span<const std::byte> sealed,
            std::span<std::byte> plain) override {
    assert(sealed.size() == plain.size() + chunk_tag_bytes);
    int length = 0;
    std::array<unsigned char, chunk_tag_bytes> tag{};
    std::copy_n(bytes_of(sealed.data()) + plain.size(), tag.size(), tag.begin());
    require(EVP_DecryptInit_ex(opens_, nullptr, nullptr, nullptr, nonce.data()));
    require(EVP_DecryptUpdate(opens_, nullptr, &length, bytes_of(header.data()),
                              static_cast<int>(header.size())));
    unsigned char none = 0;
    if (!plain.empty())
      require(EVP_DecryptUpdate(opens_, bytes_of(plain.data()), &length, bytes_of(sealed.data()),
                                static_cast<int>(plain.size())));
    require(EVP_CIPHER_CTX_ctrl(opens_, EVP_CTRL_AEAD_SET_TAG, chunk_tag_bytes, tag.data()));
    return EVP_DecryptFinal_ex(opens_, &none, &length) == 1;
  }

private:
  /// For calls whose success does not depend on data from a peer.
  static void require([[maybe_unused]] int done) { assert(done == 1); }

  EVP_CIPHER_CTX* seals_;
  EVP_CIPHER_CTX* opens_;
};

std::chrono::nanoseconds time_to_seal(chunk_suite suite) {
  using clock = std::chrono::steady_clock;
  const auto aead = make_chunk_aead(suite, chunk_key{});
  const std::vector<std::byte> plain(8192), header(16);
  std::vector<std::byte> sealed(plain.size() + chunk_tag_bytes);
  auto minimum = std::chrono::nanoseconds::max();
  for (int round = 0; round < 5; ++round) {
    const auto start = clock::now();
    aead->seal(chunk_nonce{}, header, plain, sealed);
    minimum = std::min<std::chrono::nanoseconds>(minimum, clock::now() - start);
  }
  return minimum;
}

} // namespace

std::unique_ptr<chunk_aead> make_openssl_aead(chunk_suite suite, const chunk_key& key) {
  return std::make_unique<openssl_aead>(suite, key);
}

std::unique_ptr<chunk_aead> make_chunk_aead(chunk_suite suite, const chunk_key& key) {
  if (suite == chunk_suite::aes_128_gcm)
    if (auto fast = make_ipsec_mb_aead(key))
      return fast;
  return make_openssl_aead(suite, key);
}

bool available(chunk_suite suite) {
  const chunk_key key{};
  if (suite == chunk_suite::aes_128_gcm && make_ipsec_mb_aead(key))
    return true;
  EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
  ERR_set_mark();
  const bool works = EVP_EncryptInit_ex(context, cipher_of(suite), nullptr, key.data(), nullptr) == 1;
  ERR_pop_to_mark();
  EVP_CIPHER_CTX_free(context);
  return works;
}

chunk_suite faster_suite() {
  if (!available(chunk_suite::chacha20_poly1305))
    return chunk_suite::aes_128_gcm;
  return time_to_seal(chunk_suite::chacha20_poly1305) < time_to_seal(chunk_suite::aes_128_gcm)
             ? chunk_suite::chacha20_poly1305
             : chunk_suite::aes_128_gcm;
}

} // namespace farandole
