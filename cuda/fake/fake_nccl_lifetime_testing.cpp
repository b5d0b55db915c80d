// The functions of the stand-in for NCCL that make, describe and end communicators.
#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include "cuda/fake/fake_nccl_calls_testing.hpp"
#include "cuda/fake/fake_nccl_comm_testing.hpp"
#include "cuda/fake/fake_nccl_group_testing.hpp"
#include "cuda/fake/fake_nccl_hub_testing.hpp"
#include "cuda/fake/fake_nccl_places_testing.hpp"
#include "cuda/fake/fake_nccl_registry_testing.hpp"

#define FAKE extern "C" __attribute__((visibility("default")))

using namespace fake_nccl;

namespace {

constexpr unsigned config_magic = 0xcafebeef;
constexpr std::string_view id_prefix = "stand-in:";
constexpr std::size_t name_digits = 32;

// From these versions on, NCCL has the functions.
constexpr int has_config = 21400, has_finalize = 21400, has_last_error = 21300, has_revoke = 22807;

ncclResult_t enter_call(const char* function, int since = 0) {
  return static_cast<ncclResult_t>(enter(function, since));
}

/// Empty if it is not an id of the stand-in.
std::string hub_of(const ncclUniqueId& id) {
  const std::string_view text(id.internal, id_prefix.size() + name_digits);
  return text.starts_with(id_prefix) ? std::string(text.substr(id_prefix.size())) : std::string();
}

/// NCCL_HOSTID, or a name of this host.
std::string host_name() {
  if (const char* own = std::getenv("NCCL_HOSTID"); own != nullptr && *own != '\0')
    return own;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  return boot;
}

ncclResult_t begin(ncclComm_t* handle, int ranks, const ncclUniqueId& id, int rank, bool is_blocking) {
  if (handle == nullptr || ranks < 1 || rank < 0 || rank >= ranks)
    return fail(ncclInvalidArgument, "rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                                         " ranks: an invalid rank, or no place for the communicator");
  *handle = nullptr;
  comm_facts facts;
  facts.hub = hub_of(id);
  if (facts.hub.empty())
    return fail(ncclInvalidArgument, "the unique id was not made by ncclGetUniqueId");
  const auto* driver = driver::loaded();
  if (driver == nullptr)
    return fail(ncclUnhandledCudaError, "this process has not loaded the stand-in driver");
  facts.own.ranks = ranks;
  facts.own.rank = rank;
  facts.own.version = version();
  facts.own.device = driver->current_device();
  const auto host = host_name();
  std::copy_n(host.begin(), std::min(host.size(), sizeof facts.own.host - 1), facts.own.host);
  facts.is_blocking = is_blocking;
  facts.hangs = !is_blocking && hangs("init");
  if (is_blocking && hangs("init"))
    hang();
  return add_to_group(std::make_shared<ncclComm>(std::move(facts), *driver), handle);
}

/// Waits for all kernels on the communicator's device, as freeing device memory does.
void free_resources(ncclComm& comm) {
  kernel_places::all().wait_until_idle(comm.device());
  comm.driver().wait_for_context(comm.context());
  comm.end();
}

} // namespace

FAKE ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (const auto fault = enter_call("ncclGetUniqueId"); fault != ncclSuccess)
    return fault;
  if (id == nullptr)
    return fail(ncclInvalidArgument, "ncclGetUniqueId: there is no place for the id");
  registry::all(); // ends the hub with the process
  const auto name = start_hub();
  if (name.empty())
    return fail(ncclSystemError, std::string("ncclGetUniqueId: ") + std::strerror(errno));
  *id = {};
  const auto text = std::string(id_prefix) + name;
  std::copy(text.begin(), text.end(), id->internal);
  return ncclSuccess;
}

FAKE ncclResult_t ncclCommInitRank(ncclComm_t* handle, int ranks, ncclUniqueId id, int rank) {
  const auto fault = enter_call("ncclCommInitRank");
  return fail_group(fault != ncclSuccess ? fault : begin(handle, ranks, id, rank, true));
}

FAKE ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int ranks, ncclUniqueId id, int rank,
                                         ncclConfig_t* config) {
  if (const auto fault = enter_call("ncclCommInitRankConfig", has_config); fault != ncclSuccess)
    return fail_group(fault);
  if (config != nullptr && (config->magic != config_magic || config->size < offsetof(ncclConfig_t, netName)))
    return fail_group(
        fail(ncclInvalidArgument, "the configuration does not begin as NCCL_CONFIG_INITIALIZER"));
  const int blocking = config != nullptr ? config->blocking : NCCL_CONFIG_UNDEF_INT;
  if (blocking != 0 && blocking != 1 && blocking != NCCL_CONFIG_UNDEF_INT)
    return fail_group(fail(ncclInvalidArgument, "blocking has to be 0 or 1"));
  return fail_group(begin(handle, ranks, id, rank, blocking != 0));
}

FAKE ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* state) {
  if (const auto fault = enter_call("ncclCommGetAsyncError"); fault != ncclSuccess)
    return fault;
  const auto comm = state != nullptr ? registry::all().find(handle, "ncclCommGetAsyncError") : nullptr;
  if (comm == nullptr)
    return ncclInvalidArgument;
  *state = comm->poll();
  return ncclSuccess;
}

FAKE ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  constexpr auto name = "ncclCommFinalize";
  if (const auto fault = enter_call(name, has_finalize); fault != ncclSuccess)
    return fault;
  const auto comm = registry::all().find(handle, name);
  if (comm == nullptr)
    return ncclInvalidArgument;
  if (const auto refused = comm->check_can_launch(name); refused != ncclSuccess)
    return ncclInvalidUsage == refused ? ncclInvalidArgument : refused;
  comm->finalize();
  if (!comm->is_blocking())
    return ncclInProgress;
  comm->wait_for_kernels();
  return ncclSuccess;
}

FAKE ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  constexpr auto name = "ncclCommDestroy";
  if (const auto fault = enter_call(name); fault != ncclSuccess)
    return fault;
  if (handle == nullptr)
    return ncclSuccess;
  if (const auto found = registry::all().find(handle, name); found == nullptr)
    return ncclInvalidArgument;
  else if (const auto refused = found->check_can_destroy(name); refused != ncclSuccess)
    return refused;
  const auto comm = registry::all().take(handle, name);
  if (comm == nullptr)
    return ncclInvalidArgument;
  if (hangs("destroy"))
    hang();
  comm->wait_for_kernels();
  free_resources(*comm);
  return ncclSuccess;
}

FAKE ncclResult_t ncclCommAbort(ncclComm_t handle) {
  constexpr auto name = "ncclCommAbort";
  if (const auto fault = enter_call(name); fault != ncclSuccess)
    return fault;
  if (handle == nullptr)
    return ncclSuccess;
  const auto comm = registry::all().take(handle, name);
  if (comm == nullptr)
    return ncclInvalidArgument;
  if (hangs("abort"))
    hang();
  comm->abort();
  free_resources(*comm);
  return ncclSuccess;
}

FAKE ncclResult_t ncclCommRevoke(ncclComm_t handle, int flags) {
  constexpr auto name = "ncclCommRevoke";
  if (const auto fault = enter_call(name, has_revoke); fault != ncclSuccess)
    return fault;
  if (handle == nullptr)
    return ncclSuccess;
  const auto comm = registry::all().find(handle, name);
  if (comm == nullptr)
    return ncclInvalidArgument;
  if (flags != NCCL_REVOKE_DEFAULT)
    return fail(ncclInvalidArgument, "ncclCommRevoke: the flags have to be NCCL_REVOKE_DEFAULT");
  if (const auto result = comm->revoke(); result != ncclSuccess)
    return result;
  return comm->is_blocking() ? ncclSuccess : ncclInProgress;
}

FAKE ncclResult_t ncclCommCount(ncclComm_t handle, int* count) {
  if (const auto fault = enter_call("ncclCommCount"); fault != ncclSuccess)
    return fault;
  const auto comm = count != nullptr ? registry::all().find(handle, "ncclCommCount") : nullptr;
  if (comm == nullptr)
    return ncclInvalidArgument;
  *count = comm->size();
  return comm->check_usable("ncclCommCount");
}

FAKE ncclResult_t ncclCommUserRank(ncclComm_t handle, int* rank) {
  if (const auto fault = enter_call("ncclCommUserRank"); fault != ncclSuccess)
    return fault;
  const auto comm = rank != nullptr ? registry::all().find(handle, "ncclCommUserRank") : nullptr;
  if (comm == nullptr)
    return ncclInvalidArgument;
  *rank = comm->rank();
  return comm->check_usable("ncclCommUserRank");
}

FAKE const char* ncclGetErrorString(ncclResult_t result) {
  enter("ncclGetErrorString");
  static constexpr const char* texts[] = {
      "no error",         "unhandled error of CUDA", "unhandled system error", "internal error",
      "invalid argument", "invalid usage",           "remote error",           "in progress"};
  return result >= 0 && result < ncclNumResults ? texts[result] : "unknown result code";
}

/// Valid until the thread's next call.
FAKE const char* ncclGetLastError(ncclComm_t) {
  if (enter("ncclGetLastError", has_last_error) != success)
    return "";
  static thread_local std::string text;
  text = last_error();
  return text.c_str();
}
