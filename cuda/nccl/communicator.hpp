// NCCL's communicators. One serves the members of a process set, each with one device, for as long as their part of the
// set lives.
//
// Life: begin() → connect() → launches → the end. A communicator is always ended by ncclCommAbort and never by
// ncclCommDestroy, which waits for the other ranks. ncclCommAbort waits until the device is idle, and the device may wait
// for the kernels of another communicator that has lost a rank. So abort() first makes the kernels of this one end,
// without waiting, and each communicator is freed by a thread of its own.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda/nccl/device_launcher.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Identifies a new communicator; made by one of its ranks.
using communicator_id = std::array<std::byte, 128>;

/// Used by one thread.
class communicator {
public:
  virtual ~communicator() = default; ///< frees it in the background

  /// Waits until all ranks are connected.
  virtual error connect(const wait_step& step) = 0;
  /// The error that NCCL has found in the background, such as the loss of a rank. Does not wait.
  virtual error failure() const = 0;
  /// Makes the kernels of this communicator end, also those that wait for other ranks, and all later launches fail.
  /// Their outputs have no defined content. Does not wait. Idempotent.
  virtual void abort() = 0;
};

/// NCCL as this process uses it. Thread-safe.
class nccl_library {
public:
  /// What to do if a communicator could not be freed within `free_timeout`: `text` names the call and the device. `own_work`:
  /// the device has not ended a launch by the communicator; otherwise it is busy with other work.
  using stuck_handler = std::function<void(const std::string& text, bool own_work)>;

  /// The NCCL that find_nccl() finds (nccl_facts.hpp). It stays loaded until the process ends.
  static expected<std::shared_ptr<nccl_library>> open(const std::vector<std::string>& candidates,
                                                      std::chrono::nanoseconds free_timeout,
                                                      stuck_handler stuck);
  virtual ~nccl_library() = default;

  /// Why this build can use no NCCL at all; kind `none` if it can.
  static error objection_to_build();

  virtual int version() const = 0; ///< 22809 is 2.28.9
  virtual std::string path() const = 0;

  virtual expected<communicator_id> create_id() = 0;
  struct membership {
    std::shared_ptr<devices> owner;
    std::int32_t device = -1; ///< of this member
    std::int32_t ranks = 0;
    std::int32_t rank = 0; ///< of this member
  };
  /// Begins to connect a communicator; connect() ends it. Does not wait for other ranks.
  virtual expected<std::unique_ptr<communicator>> begin(const membership& own, const communicator_id& id) = 0;

  /// Waits until all communicators that have ended are freed; false if that takes longer.
  virtual bool wait_until_freed(std::chrono::nanoseconds timeout) = 0;
};

} // namespace farandole
