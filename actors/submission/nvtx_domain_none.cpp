// Replaces nvtx_domain.cpp in builds that found no headers of NVTX: no domain has a listener.
#include "actors/submission/nvtx_domain.hpp"

namespace farandole {

bool nvtx_domain::is_built_in() {
  return false;
}

nvtx_domain::nvtx_domain(const char*) {}

nvtx_domain::~nvtx_domain() {}

std::uint64_t nvtx_domain::begin(const std::string&, std::uint64_t) const {
  return 0;
}

void nvtx_domain::end(std::uint64_t) const {}

} // namespace farandole
