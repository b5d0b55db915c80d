#include "collectives/transport/ucx/ucx_endpoints.hpp"

#include "collectives/transport/signals_blocked.hpp"

namespace farandole {

error ucx_endpoints::create(std::span<const std::string> addresses, std::int32_t rank) {
  signals_blocked guard;
  table_.resize(addresses.size());
  for (std::int32_t peer = 0; peer < static_cast<std::int32_t>(table_.size()); ++peer) {
    endpoint& target = table_[static_cast<std::size_t>(peer)];
    target.owner = this;
    if (peer == rank)
      continue;
    const std::string& address = addresses[static_cast<std::size_t>(peer)];
    if (address.empty())
      return {error_kind::unimplemented,
              departure_.name_of(peer) + " cannot be reached by UCX: it announced no address"};
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = &ucx_endpoints::on_broken;
    params.err_handler.arg = &target;
    const ucs_status_t status = context_.ucx().ep_create(context_.worker(), &params, &target.handle);
    if (status != UCS_OK) {
      target.handle = nullptr;
      departure_.lose_connection(peer, context_.ucx().status_string(status));
    }
  }
  return {};
}

void ucx_endpoints::on_broken(void* owner, ucp_ep_h, ucs_status_t status) {
  endpoint& lost = *static_cast<endpoint*>(owner);
  ucx_endpoints& self = *lost.owner;
  lost.broken = true;
  self.departure_.lose_connection(static_cast<std::int32_t>(&lost - self.table_.data()),
                                  self.context_.ucx().status_string(status));
}

void ucx_endpoints::flush(clock::time_point deadline) {
  std::vector<void*> flushes;
  for (const endpoint& endpoint : table_) {
    ucp_request_param_t params{};
    if (endpoint.handle == nullptr || endpoint.broken)
      continue;
    if (void* request = context_.ucx().ep_flush_nbx(endpoint.handle, &params); UCS_PTR_IS_PTR(request))
      flushes.push_back(request);
  }
  context_.await_and_free(flushes, deadline);
}

void ucx_endpoints::close(clock::time_point deadline) {
  std::vector<void*> closing;
  for (endpoint& endpoint : table_) {
    if (endpoint.handle == nullptr || endpoint.broken)
      continue;
    ucp_request_param_t params{};
    void* request = context_.ucx().ep_close_nbx(endpoint.handle, &params);
    endpoint.handle = nullptr;
    if (UCS_PTR_IS_PTR(request))
      closing.push_back(request);
  }
  context_.await_and_free(closing, deadline);
}

void ucx_endpoints::break_all() {
  for (endpoint& endpoint : table_) {
    if (endpoint.handle == nullptr)
      continue;
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = UCP_EP_CLOSE_FLAG_FORCE;
    void* request = context_.ucx().ep_close_nbx(endpoint.handle, &params);
    endpoint.handle = nullptr;
    if (UCS_PTR_IS_PTR(request))
      context_.ucx().request_free(request);
  }
}

} // namespace farandole
