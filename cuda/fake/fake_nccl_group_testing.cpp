#include "cuda/fake/fake_nccl_group_testing.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "cuda/fake/fake_nccl_calls_testing.hpp"
#include "cuda/fake/fake_nccl_comm_testing.hpp"
#include "cuda/fake/fake_nccl_registry_testing.hpp"

#define FAKE extern "C" __attribute__((visibility("default")))

namespace fake_nccl {

namespace {

struct beginning {
  std::shared_ptr<ncclComm> comm;
  ncclComm_t* handle;
};

struct launching {
  std::shared_ptr<ncclComm> comm;
  std::vector<operation> operations;
};

struct group {
  unsigned depth = 0;
  ncclResult_t failure = ncclSuccess;
  std::vector<beginning> beginnings;
  std::vector<launching> launches; ///< one for each communicator, in the order of their first calls
};

thread_local group current;

/// The communicators of a group that does not begin them.
void discard(const std::vector<beginning>& all) {
  for (const auto& [comm, handle] : all) {
    registry::all().remove(comm.get());
    comm->abort();
    comm->end();
    *handle = nullptr;
  }
}

ncclResult_t begin_all(const std::vector<beginning>& all) {
  for (const auto& [comm, handle] : all)
    comm->start();
  auto result = ncclSuccess;
  for (const auto& [comm, handle] : all) {
    const auto own = comm->is_blocking() ? comm->wait_until_ready() : ncclInProgress;
    if (result == ncclSuccess)
      result = own;
    if (own != ncclSuccess && own != ncclInProgress)
      discard({{comm, handle}});
  }
  return result;
}

ncclResult_t launch_all(std::vector<launching> all) {
  auto result = ncclSuccess;
  for (auto& [comm, operations] : all) {
    auto own = ncclInProgress;
    if (comm->is_blocking())
      own = launch(comm, std::move(operations));
    else
      comm->postpone([owner = std::weak_ptr(comm), later = std::move(operations)]() mutable {
        if (const auto alive = owner.lock())
          launch(alive, std::move(later));
      });
    if (result == ncclSuccess)
      result = own;
  }
  return result;
}

ncclResult_t run(group whole) {
  if (whole.failure == ncclSuccess && !whole.beginnings.empty() && !whole.launches.empty())
    whole.failure = fail(ncclInvalidUsage, "a group cannot make communicators and launch operations");
  const auto blocks = [](const launching& each) { return each.comm->is_blocking(); };
  if (whole.failure == ncclSuccess && std::ranges::any_of(whole.launches, blocks) &&
      !std::ranges::all_of(whole.launches, blocks))
    whole.failure = fail(ncclInvalidArgument, "a group has blocking and non-blocking communicators");
  if (whole.failure != ncclSuccess) {
    discard(whole.beginnings);
    return whole.failure;
  }
  return whole.launches.empty() ? begin_all(whole.beginnings) : launch_all(std::move(whole.launches));
}

} // namespace

bool is_in_group() {
  return current.depth > 0;
}

ncclResult_t fail_group(ncclResult_t result) {
  if (current.depth > 0 && current.failure == ncclSuccess)
    current.failure = result;
  return result;
}

ncclResult_t add_to_group(const std::shared_ptr<ncclComm>& comm, operation next) {
  auto& launches = current.launches;
  auto found = std::ranges::find(launches, comm, &launching::comm);
  if (found == launches.end())
    found = launches.insert(launches.end(), {comm, {}});
  found->operations.push_back(std::move(next));
  return current.depth > 0 ? ncclSuccess : run(std::exchange(current, {}));
}

ncclResult_t add_to_group(const std::shared_ptr<ncclComm>& comm, ncclComm_t* handle) {
  registry::all().add(comm);
  *handle = comm.get();
  current.beginnings.push_back({comm, handle});
  return current.depth > 0 ? ncclSuccess : run(std::exchange(current, {}));
}

} // namespace fake_nccl

using namespace fake_nccl;

FAKE ncclResult_t ncclGroupStart() {
  const auto fault = static_cast<ncclResult_t>(enter("ncclGroupStart"));
  if (fault == ncclSuccess)
    ++current.depth;
  return fault;
}

FAKE ncclResult_t ncclGroupEnd() {
  const auto fault = static_cast<ncclResult_t>(enter("ncclGroupEnd"));
  if (current.depth == 0)
    return fail(ncclInvalidUsage, "ncclGroupEnd: there was no ncclGroupStart");
  if (fault != ncclSuccess)
    fail_group(fault);
  if (--current.depth > 0)
    return ncclSuccess;
  return run(std::exchange(current, {}));
}
