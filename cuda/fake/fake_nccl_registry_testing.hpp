// The communicators of this process, by their handles.
#pragma once

#include <nccl.h>

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

struct ncclComm;

namespace fake_nccl {

/// There is one object, which is never destroyed: other threads may call NCCL while the process ends.
class registry {
public:
  static registry& all();

  void add(const std::shared_ptr<ncclComm>& comm);
  /// For a communicator whose initialisation failed, and which the caller never got.
  void remove(ncclComm_t handle);
  /// The communicator of a handle. Null for one that was destroyed or aborted, or never existed; that is counted as a
  /// misuse, and becomes the last error.
  std::shared_ptr<ncclComm> find(ncclComm_t handle, const char* function);
  /// The same, and ends the life of the handle: a second call gets null.
  std::shared_ptr<ncclComm> take(ncclComm_t handle, const char* function);
  unsigned alive();

private:
  registry();
  static void end_process();

  std::mutex mutex_;
  std::unordered_map<ncclComm_t, std::shared_ptr<ncclComm>> alive_;
  /// Kept, so that no new communicator gets the handle of an old one. With the name of the function that ended it.
  std::unordered_map<ncclComm_t, std::pair<std::shared_ptr<ncclComm>, std::string>> ended_;
};

} // namespace fake_nccl
