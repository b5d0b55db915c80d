// A communicator: what this rank knows of it, and the thread that talks to the hub.
#pragma once

#include <cuda.h>
#include <nccl.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cuda/fake/fake_nccl_driver_testing.hpp"
#include "cuda/fake/fake_nccl_frames_testing.hpp"

namespace fake_nccl {

/// Sets the last error, and returns the result.
ncclResult_t fail(ncclResult_t result, const std::string& text);

/// The result for calls of a communicator while an earlier call is in progress. NCCL returns ncclInvalidArgument.
constexpr auto not_ready = ncclInvalidUsage;

/// What a communicator is made of; constant in its life.
struct comm_facts {
  std::string hub; ///< the name at which it listens
  introduction own;
  bool is_blocking = true;
  bool hangs = false; ///< never connects
};

} // namespace fake_nccl

/// NCCL's header declares the name. All members may be called by any thread.
struct ncclComm : std::enable_shared_from_this<ncclComm> {
  /// Retains the primary context of its device.
  ncclComm(fake_nccl::comm_facts facts, const fake_nccl::driver& driver);
  ncclComm(const ncclComm&) = delete;
  ncclComm& operator=(const ncclComm&) = delete;
  /// end() must have returned, or start() not have been called.
  ~ncclComm() = default;

  int rank() const { return facts_.own.rank; }
  int size() const { return facts_.own.ranks; }
  int device() const { return facts_.own.device; }
  bool is_blocking() const { return facts_.is_blocking; }
  CUcontext context() const { return context_; }
  const fake_nccl::driver& driver() const { return driver_; }

  // Life, in this order.

  /// Starts the thread, which connects.
  void start();
  /// Waits until all ranks have come. Returns the result, and sets the last error.
  ncclResult_t wait_until_ready();
  /// Ends the thread, and the connection with it. Says to the peers that it leaves unless it was aborted.
  void end();

  // State.

  /// As ncclCommGetAsyncError reports it.
  ncclResult_t state();
  /// The result for a call that needs a communicator without work in progress, and without an error.
  ncclResult_t check_usable(const char* function);
  /// The same for calls that launch work.
  ncclResult_t check_can_launch(const char* function);
  /// The same for the end of its life.
  ncclResult_t check_can_destroy(const char* function);
  void set_error(ncclResult_t error, const std::string& text);
  /// No more calls that launch work. The state is ncclInProgress until the kernels have ended.
  void finalize();
  /// Ends all kernels. The state is ncclInProgress until they have ended. Fails if this was called before.
  ncclResult_t revoke();
  /// Ends all kernels, those that wait for a launch as well.
  void abort();
  /// Waits until its kernels have ended.
  void wait_for_kernels();

  /// For a non-blocking communicator: what poll() is to do later. The state is ncclInProgress until then.
  void postpone(std::function<void()> launch);
  /// As ncclCommGetAsyncError: counts, and launches postponed work when its time has come.
  ncclResult_t poll();

  // Kernels. They run in the order of their launch, also on different streams.

  /// Returns the number of a kernel.
  std::uint64_t launch_kernel();
  /// Waits until the kernels before this one have ended.
  void wait_for_turn(std::uint64_t kernel);
  void kernel_ended(std::uint64_t kernel);
  /// Sends operations to the hub, and waits for their results, in their order. Empty if the kernel has to end because
  /// of an abort.
  std::vector<fake_nccl::frame_data> exchange(std::vector<fake_nccl::frame> operations);

private:
  ncclResult_t state_without_lock() const;
  bool is_quiet() const { return kernels_launched_ == first_kernel_; }
  void serve();
  void talk(fake_nccl::frame_socket& socket);
  bool take_unsent(fake_nccl::frame_socket& socket);
  void lose_hub();
  void handle(const fake_nccl::frame& received);
  void settle_init(ncclResult_t result, const std::string& text);

  const fake_nccl::comm_facts facts_;
  const fake_nccl::driver& driver_;
  CUcontext context_ = nullptr;
  std::thread thread_;

  // The following belongs to the mutex.
  std::mutex mutex_;
  std::unique_ptr<fake_nccl::wake_descriptor> wake_; ///< for the thread, and as long as that runs
  std::condition_variable changed_;
  ncclResult_t init_ = ncclInProgress; ///< the result of the initialisation
  ncclResult_t error_ = ncclSuccess;   ///< the first asynchronous error; stays
  std::string init_text_;
  bool is_aborted_ = false, is_revoked_ = false, is_finalized_ = false, is_ending_ = false;
  std::vector<std::function<void()>> postponed_;
  int polls_left_ = 0; ///< until `postponed_` is done
  std::uint64_t kernels_launched_ = 0;
  std::uint64_t first_kernel_ = 0;       ///< the first that has not ended
  std::set<std::uint64_t> ended_behind_; ///< it: they were dropped by their streams
  std::vector<fake_nccl::frame> unsent_;
  std::map<std::uint64_t, fake_nccl::frame_data>
      results_; ///< by the operation's id; null until it has arrived
  std::uint64_t next_id_ = 1;
};
