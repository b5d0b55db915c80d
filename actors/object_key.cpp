#include "actors/object_key.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <cassert>
#include <string_view>

#include "collectives/paths/forced_path.hpp"

namespace farandole {

namespace {

constexpr std::string_view label = "farandole object tag, version 1";

} // namespace

std::string object_key(const settings& values, const std::string& secret) {
  if (secret.empty() || is_authenticated(find_forced_path(values).name))
    return {};
  std::array<unsigned char, 32> key{};
  unsigned int length = 0;
  [[maybe_unused]] const auto* done =
      HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(label.data()), label.size(), key.data(), &length);
  assert(done != nullptr && length == key.size());
  return {reinterpret_cast<const char*>(key.data()), key.size()};
}

} // namespace farandole
