// Replaces chunk_aead_ipsec_mb.cpp in builds without libipsec-mb, which supports only x86 processors.
#include "collectives/transport/tcp/chunk_aead.hpp"

namespace farandole {

std::unique_ptr<chunk_aead> make_ipsec_mb_aead(const chunk_key&) {
  return nullptr;
}

} // namespace farandole
