// Makes OpenSSL behave as in FIPS mode as far as chunks are concerned: it has AES-GCM and refuses
// ChaCha20-Poly1305. The effect is limited to the calling thread and the lifetime of the object.
// libipsec-mb is not affected.
#pragma once

#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/provider.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <string_view>
#include <vector>

namespace farandole::testing {

class openssl_without_chacha {
public:
  openssl_without_chacha() : context_(OSSL_LIB_CTX_new()) {
    everything() = OSSL_PROVIDER_load(nullptr, "default");
    REQUIRE(everything() != nullptr);
    REQUIRE(OSSL_PROVIDER_add_builtin(context_, "most", begin) == 1);
    limit_ = OSSL_PROVIDER_load(context_, "most");
    REQUIRE(limit_ != nullptr);
    before_ = OSSL_LIB_CTX_set0_default(context_);
  }
  ~openssl_without_chacha() {
    OSSL_LIB_CTX_set0_default(before_);
    OSSL_PROVIDER_unload(limit_);
    OSSL_LIB_CTX_free(context_);
    OSSL_PROVIDER_unload(everything());
  }
  openssl_without_chacha(const openssl_without_chacha&) = delete;
  openssl_without_chacha& operator=(const openssl_without_chacha&) = delete;

private:
  static OSSL_PROVIDER*& everything() {
    static OSSL_PROVIDER* provider = nullptr;
    return provider;
  }
  /// Forwards to the default provider, but leaves out one cipher.
  static const OSSL_ALGORITHM* query(void*, int operation, int* no_store) {
    static std::vector<OSSL_ALGORITHM> ciphers;
    const auto* all = OSSL_PROVIDER_query_operation(everything(), operation, no_store);
    if (operation != OSSL_OP_CIPHER || all == nullptr)
      return all;
    ciphers.clear();
    for (; all->algorithm_names != nullptr; ++all)
      if (std::string_view{all->algorithm_names}.find("ChaCha20-Poly1305") == std::string_view::npos)
        ciphers.push_back(*all);
    ciphers.push_back({});
    return ciphers.data();
  }
  static int begin(const OSSL_CORE_HANDLE*, const OSSL_DISPATCH*, const OSSL_DISPATCH** functions,
                   void** context) {
    static const OSSL_DISPATCH table[] = {
        {OSSL_FUNC_PROVIDER_QUERY_OPERATION, reinterpret_cast<void (*)()>(query)}, {0, nullptr}};
    *functions = table;
    *context = OSSL_PROVIDER_get0_provider_ctx(everything());
    return 1;
  }

  OSSL_LIB_CTX* context_;
  OSSL_LIB_CTX* before_ = nullptr;
  OSSL_PROVIDER* limit_ = nullptr;
};

} // namespace farandole::testing
