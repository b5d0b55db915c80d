#include "collectives/transport/ucx/ucx_context.hpp"

#include <poll.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "collectives/transport/p2p/peer_messenger.hpp"
#include "collectives/transport/signals_blocked.hpp"
#include "collectives/transport/ucx/ucx_networks.hpp"

namespace farandole {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? std::optional<std::string>(text) : std::nullopt;
}

} // namespace

expected<std::unique_ptr<ucx_context>> ucx_context::open(const ucx_options& options) {
  const expected<ucx_library>& ucx = load_ucx();
  if (!ucx)
    return ucx.error();
  std::unique_ptr<ucx_context> made{new ucx_context(*ucx)};
  if (error problem = made->start(options))
    return problem;
  return made;
}

ucx_context::~ucx_context() {
  if (worker_ != nullptr)
    ucx_.worker_destroy(worker_);
  if (context_ != nullptr)
    ucx_.cleanup(context_);
}

error ucx_context::start(const ucx_options& options) {
  signals_blocked guard;
  const auto transports = ucx_transports(variable("UCX_TLS"), options.trusted_network);
  if (!transports)
    return transports.error();
  auto failed = [&](const char* step, ucs_status_t status) {
    const std::string remedy =
        options.trusted_network
            ? ""
            : "; without FARANDOLE_TRUSTED_NETWORK=1 it needs a fabric with RDMA (rc, dc, ud), not TCP";
    return error{error_kind::unimplemented, std::string{"the ucx path cannot start: "} + step + ": " +
                                                ucx_.status_string(status) + remedy};
  };
  ucp_config_t* config = nullptr;
  if (ucs_status_t status = ucx_.config_read(nullptr, nullptr, &config); status != UCS_OK)
    return failed("reading UCX's configuration", status);
  // config_modify() takes the names of settings without the prefix "UCX_". Unknown settings are ignored,
  // because they only make UCX quieter and more careful.
  auto set = [&](const char* name, const std::string& value) {
    ucx_.config_modify(config, name, value.c_str());
  };
  set("TLS", *transports);
  const auto devices = ucx_devices(find_network_devices(options.ip), options.trusted_network);
  if (!variable("UCX_NET_DEVICES") && !devices.empty())
    set("NET_DEVICES", devices);
  if (!options.ports.any())
    set("TCP_PORT_RANGE", options.ports.text());
  // UCX would take the IPv4 address of an interface that has both, which members without IPv4 cannot reach.
  if (options.ip.find(':') != std::string::npos)
    set("TCP_AF_PRIO", "inet6,inet");
  set("WARN_INVALID_CONFIG", "n");
  // Over TCP, the rendezvous protocol of UCX 1.13 fails an assertion, and ends the process, if a peer closes
  // in the middle of it. Without that protocol the receiver copies once more.
  if (std::getenv("UCX_RNDV_THRESH") == nullptr)
    set("RNDV_THRESH", "inf");
  // Disable the registration cache, so that UCX needs no hooks in the allocator of a process that belongs to
  // the user.
  set("RCACHE_ENABLE", "n");
  set("REG_METHODS", "direct");
  set("CONN_NB", "y"); // a host that does not answer must not block beyond the deadline
  set("MAX_NUM_EPS", "inf");

  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  ucs_status_t status = ucx_.init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  ucx_.config_release(config);
  if (status != UCS_OK)
    return failed("making a context", status);
  ucp_worker_params_t worker_params{};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_params.thread_mode = UCS_THREAD_MODE_SINGLE;
  if (status = ucx_.worker_create(context_, &worker_params, &worker_); status != UCS_OK)
    return failed("making a worker", status);
  if (status = ucx_.worker_get_efd(worker_, &event_); status != UCS_OK)
    return failed("getting its event descriptor", status);
  return {};
}

std::string ucx_context::address() const {
  ucp_address_t* bytes = nullptr;
  std::size_t length = 0;
  if (ucx_.worker_get_address(worker_, &bytes, &length) != UCS_OK)
    return {};
  std::string copy(reinterpret_cast<const char*>(bytes), length);
  ucx_.worker_release_address(worker_, bytes);
  return copy;
}

bool ucx_context::sleep(clock::time_point deadline) {
  if (ucx_.worker_arm(worker_) != UCS_OK)
    return false;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now()).count();
  pollfd news{event_, POLLIN, 0};
  const int slice = static_cast<int>(std::clamp<std::int64_t>(left, 0, slice_ms_));
  if (::poll(&news, 1, slice) > 0)
    return false;
  slice_ms_ = std::min(slice_ms_ + 1, longest_slice_ms);
  return true;
}

void ucx_context::progress_until(clock::time_point deadline, const std::function<bool()>& done) {
  reset_sleep();
  while (!done()) {
    if (progress())
      continue;
    if (clock::now() >= deadline)
      return;
    sleep(deadline);
  }
}

void ucx_context::await_and_free(std::span<void* const> requests, clock::time_point deadline) {
  progress_until(deadline, [&] {
    return std::none_of(requests.begin(), requests.end(),
                        [&](void* request) { return ucx_.request_check_status(request) == UCS_INPROGRESS; });
  });
  for (void* request : requests)
    ucx_.request_free(request);
}

} // namespace farandole
