#include "actors/gpu/process_gpus.hpp"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "actors/submission/device_gate.hpp"
#include "cuda/nccl/nccl_facts.hpp"

namespace farandole {

namespace {

/// The last place, behind those that find_nccl() knows.
const std::vector<std::string> nccl_of_loader{"libnccl.so.2"};

// A GPU that does not end Farandole's own work is of no use any more, and neither is this process. In an elastic job the
// others continue without it.
void tell_of_stuck_gpu(const std::string& text, bool own_work) {
  if (!own_work) {
    std::fprintf(stderr, "farandole: WARNING: %s: other work keeps the GPU busy\n", text.c_str());
    return;
  }
  std::fprintf(stderr,
               "farandole: FATAL: %s, so the GPU does not respond; this process ends. Look for the GPU's "
               "error with nvidia-smi and dmesg\n",
               text.c_str());
  std::fflush(nullptr);
  ::_exit(EXIT_FAILURE);
}

// Never destroyed: threads of frameworks may call until the process ends.
expected<std::shared_ptr<device_launcher>> lend_launcher(std::int32_t device) {
  static auto& unused = *new device_launchers;
  auto all = devices_of_process();
  return all ? unused.lend(*all, device) : all.error();
}

} // namespace

expected<std::shared_ptr<device_launcher>> runtime_launchers::get(std::int32_t device, std::uint32_t stream) {
  const std::lock_guard lock(mutex_);
  auto& entry = lent_[{device, stream}];
  if (!entry) {
    auto launcher = lend_launcher(device);
    if (!launcher)
      return launcher.error();
    entry = std::move(*launcher);
  }
  return entry;
}

expected<std::shared_ptr<nccl_library>> nccl_of_process(std::chrono::nanoseconds free_timeout,
                                                        const std::string& host_id) {
  static auto& guard = *new std::mutex;
  static auto& opened = *new std::shared_ptr<nccl_library>;
  const std::lock_guard lock(guard);
  if (!opened) {
    auto found = nccl_library::open(nccl_of_loader, free_timeout, tell_of_stuck_gpu);
    if (!found)
      return found.error();
    opened = std::move(*found);
    // NCCL reads it when it creates its first communicator.
    if (!host_id.empty())
      ::setenv("NCCL_HOSTID", host_id.c_str(), 0);
  }
  return opened;
}

std::int32_t usable_nccl_version() {
  const auto found = find_nccl(nccl_of_loader);
  return found && !nccl_library::objection_to_build() ? found->version : 0;
}

} // namespace farandole
