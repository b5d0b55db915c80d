#include "cuda/fake/fake_nccl_registry_testing.hpp"

#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "cuda/fake/fake_nccl_calls_testing.hpp"
#include "cuda/fake/fake_nccl_comm_testing.hpp"
#include "cuda/fake/fake_nccl_hub_testing.hpp"
#include "cuda/fake/fake_nccl_places_testing.hpp"

#define FAKE extern "C" __attribute__((visibility("default")))

namespace fake_nccl {

namespace {

pid_t owner = 0; ///< the process whose threads these are; a child of a fork has none

} // namespace

registry::registry() {
  owner = ::getpid();
  std::atexit(end_process); // ends hubs if there never is a communicator
}

registry& registry::all() {
  static auto& all = *new registry;
  return all;
}

void registry::end_process() {
  if (owner != ::getpid())
    return;
  kernel_places::all().close();
  std::vector<std::shared_ptr<ncclComm>> last;
  {
    auto& all = registry::all();
    const std::lock_guard lock(all.mutex_);
    for (const auto& [handle, comm] : all.alive_)
      last.push_back(comm);
    all.alive_.clear();
  }
  for (const auto& comm : last)
    comm->abort();
  for (const auto& comm : last)
    comm->end();
  end_hubs();
}

void registry::add(const std::shared_ptr<ncclComm>& comm) {
  // Once more: it has to run before the driver waits for its streams, which has registered itself meanwhile.
  static const int registered = std::atexit(end_process);
  static_cast<void>(registered);
  const std::lock_guard lock(mutex_);
  alive_.emplace(comm.get(), comm);
}

void registry::remove(ncclComm_t handle) {
  const std::lock_guard lock(mutex_);
  alive_.erase(handle);
}

std::shared_ptr<ncclComm> registry::find(ncclComm_t handle, const char* function) {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = alive_.find(handle); found != alive_.end())
      return found->second;
    const auto ended = ended_.find(handle);
    text = std::string(function) + ": " +
           (ended != ended_.end() ? "the communicator has ended with " + ended->second.second
                                  : "there is no such communicator");
  }
  report_misuse(text);
  return nullptr;
}

std::shared_ptr<ncclComm> registry::take(ncclComm_t handle, const char* function) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = alive_.find(handle); found != alive_.end()) {
      auto comm = std::move(found->second);
      alive_.erase(found);
      ended_.emplace(handle, std::pair(comm, std::string(function)));
      return comm;
    }
  }
  return find(handle, function);
}

unsigned registry::alive() {
  const std::lock_guard lock(mutex_);
  return static_cast<unsigned>(alive_.size());
}

} // namespace fake_nccl

/// How many communicators of this process were neither destroyed nor aborted.
FAKE unsigned fakeNcclCommunicators() {
  return fake_nccl::registry::all().alive();
}
