#include "actors/member/object_key.hpp"

#include <array>

#include "collectives/transport/connections/tls.hpp"
#include "collectives/transport/registry/forced_path.hpp"

namespace farandole {

std::string object_key(const settings& values, const std::string& secret) {
  if (secret.empty() || is_authenticated(find_forced_path(values).name))
    return {};
  std::array<unsigned char, 32> key{};
  derive_key({reinterpret_cast<const unsigned char*>(secret.data()), secret.size()},
             "farandole object tag, version 1", key);
  return {reinterpret_cast<const char*>(key.data()), key.size()};
}

} // namespace farandole
