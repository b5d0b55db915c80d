// AES-128-GCM by libipsec-mb, which uses the widest AES instructions of the processor. The library has 13
// MB, so it is loaded on first use. Without it OpenSSL does the same at a third of the speed.
#include <dlfcn.h>
#include <intel-ipsec-mb.h>

#include <cassert>
#include <cstdlib>
#include <cstring>
#include <new>

#include "collectives/transport/tcp/chunk_aead.hpp"

namespace farandole {
namespace {

struct gcm_functions {
  decltype(IMB_MGR::gcm128_pre) prepare = nullptr;
  decltype(IMB_MGR::gcm128_enc) seal = nullptr;
  decltype(IMB_MGR::gcm128_dec) open = nullptr;
  explicit operator bool() const { return prepare != nullptr && seal != nullptr && open != nullptr; }
};

/// Accepts only the version of the library that this file was compiled for: the layout of IMB_MGR depends
/// on it.
gcm_functions load() {
  void* library = ::dlopen("libIPSec_MB.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return {};
  const auto version = reinterpret_cast<decltype(&imb_get_version)>(::dlsym(library, "imb_get_version"));
  const auto make = reinterpret_cast<decltype(&alloc_mb_mgr)>(::dlsym(library, "alloc_mb_mgr"));
  const auto start = reinterpret_cast<decltype(&init_mb_mgr_auto)>(::dlsym(library, "init_mb_mgr_auto"));
  const auto end = reinterpret_cast<decltype(&free_mb_mgr)>(::dlsym(library, "free_mb_mgr"));
  if (version == nullptr || make == nullptr || start == nullptr || end == nullptr ||
      version() != IMB_VERSION_NUM)
    return {};
  IMB_MGR* manager = make(0);
  if (manager == nullptr)
    return {};
  start(manager, nullptr);
  gcm_functions found;
  if (manager->imb_errno == 0)
    found = {manager->gcm128_pre, manager->gcm128_enc, manager->gcm128_dec};
  end(manager);
  return found;
}

const gcm_functions& functions() {
  static const gcm_functions loaded = load();
  return loaded;
}

class ipsec_mb_aead : public chunk_aead {
public:
  ipsec_mb_aead(const gcm_functions& gcm, const chunk_key& key) : gcm_(gcm) {
    gcm_.prepare(key.data(), &state_.key);
  }
  ~ipsec_mb_aead() override { ::explicit_bzero(&state_, sizeof state_); }

  void seal(const chunk_nonce& nonce, std::span<const std::byte> header, std::span<const std::byte> plain,
            std::span<std::byte> sealed) override {
    assert(sealed.size() == plain.size() + chunk_tag_bytes);
    gcm_.seal(&state_.key, &state_.context, bytes(sealed.data()), bytes(plain.data()), plain.size(),
              nonce.data(), bytes(header.data()), header.size(), bytes(sealed.data()) + plain.size(),
              chunk_tag_bytes);
  }

  bool open(const chunk_nonce& nonce, std::span<const std::byte> header, std::span<const std::byte> sealed,
            std::span<std::byte> plain) override {
    assert(sealed.size() == plain.size() + chunk_tag_bytes);
    std::array<std::uint8_t, chunk_tag_bytes> tag{};
    gcm_.open(&state_.key, &state_.context, bytes(plain.data()), bytes(sealed.data()), plain.size(),
              nonce.data(), bytes(header.data()), header.size(), tag.data(), tag.size());
    const std::uint8_t* wanted = bytes(sealed.data()) + plain.size();
    unsigned difference = 0; // constant time: all bytes are compared
    for (std::size_t at = 0; at < tag.size(); ++at)
      difference |= static_cast<unsigned>(tag[at] ^ wanted[at]);
    return difference == 0;
  }

private:
  static std::uint8_t* bytes(std::byte* memory) { return reinterpret_cast<std::uint8_t*>(memory); }
  static const std::uint8_t* bytes(const std::byte* memory) {
    return reinterpret_cast<const std::uint8_t*>(memory);
  }

  struct alignas(64) {
    gcm_key_data key;
    gcm_context_data context;
  } state_{};
  const gcm_functions& gcm_;
};

} // namespace

std::unique_ptr<chunk_aead> make_ipsec_mb_aead(const chunk_key& key) {
  const gcm_functions& gcm = functions();
  return gcm ? std::make_unique<ipsec_mb_aead>(gcm, key) : nullptr;
}

} // namespace farandole
