// Stands in where the build found no libipsec-mb: it knows x86 processors only.
#include "collectives/transport/tcp/chunk_aead.hpp"

namespace farandole {

std::unique_ptr<chunk_aead> make_ipsec_mb_aead(const chunk_key&) {
  return nullptr;
}

} // namespace farandole
