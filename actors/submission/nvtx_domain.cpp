#include "actors/submission/nvtx_domain.hpp"

#include <mutex>

#include <nvtx3/nvToolsExt.h>

namespace farandole {

namespace {

nvtxDomainHandle_t native(void* handle) {
  return static_cast<nvtxDomainHandle_t>(handle);
}

/// The first call of NVTX replaces its function pointers, which a call on another thread could read meanwhile.
std::mutex opening;

} // namespace

bool nvtx_domain::is_built_in() {
  return true;
}

nvtx_domain::nvtx_domain(const char* name) {
  const std::lock_guard guard(opening);
  handle_ = ::nvtxDomainCreateA(name);
}

nvtx_domain::~nvtx_domain() {
  if (handle_)
    ::nvtxDomainDestroy(native(handle_));
}

std::uint64_t nvtx_domain::begin(const std::string& name, std::uint64_t payload) const {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name.c_str();
  attributes.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  attributes.payload.ullValue = payload;
  return ::nvtxDomainRangeStartEx(native(handle_), &attributes);
}

void nvtx_domain::end(std::uint64_t range) const {
  ::nvtxDomainRangeEnd(native(handle_), range);
}

} // namespace farandole
