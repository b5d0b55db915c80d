// NCCL and the launchers of this process. They are looked for when they are needed for the first time, and kept until the
// process ends. (The devices: actors/submission/device_gate.hpp.)
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "cuda/nccl/communicator.hpp"
#include "cuda/nccl/device_launcher.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// The launchers of one runtime, one for each stream of a device that its process sets share. Runtimes of a process have
/// launchers of their own: the order of launches holds within a runtime. Thread-safe.
class runtime_launchers {
public:
  /// `stream` counts from 0.
  expected<std::shared_ptr<device_launcher>> get(std::int32_t device, std::uint32_t stream);

private:
  std::mutex mutex_;
  std::map<std::pair<std::int32_t, std::uint32_t>, std::shared_ptr<device_launcher>> lent_;
};

/// The process ends, with a message, if a communicator cannot be freed within `free_timeout` because its GPU does not end
/// its work; if the GPU is busy with other work, there is a warning.
/// `host_id`: the identity of this host, if the user has set one; NCCL takes it, too (NCCL_HOSTID), unless it has its own.
/// The first call that finds NCCL decides on both. Thread-safe.
expected<std::shared_ptr<nccl_library>> nccl_of_process(std::chrono::nanoseconds free_timeout,
                                                        const std::string& host_id);

/// The version code of the NCCL that this process would use (22809 is 2.28.9), which is loaded; 0 if this build can use
/// none, or there is none. Thread-safe.
std::int32_t usable_nccl_version();

} // namespace farandole
