// A communicator of NCCL. It is non-blocking: each call returns at once, and the state of the communicator says when the
// library has done its part.
#pragma once

#include <memory>

#include "cuda/driver/device_stream.hpp"
#include "cuda/nccl/communicator.hpp"
#include "cuda/nccl/communicator_ends.hpp"
#include "cuda/nccl/nccl_functions.hpp"

namespace farandole {

class nccl_communicator final : public communicator {
public:
  struct surroundings {
    std::shared_ptr<const nccl_functions> functions;
    std::shared_ptr<devices> owner;
    std::int32_t device = -1;
    std::shared_ptr<communicator_ends> ends;
  };
  /// Begins to connect.
  static expected<std::unique_ptr<communicator>> begin(surroundings around, const communicator_id& id,
                                                       std::int32_t ranks, std::int32_t rank);
  nccl_communicator(surroundings around, CUcontext context, ncclComm_t handle)
      : around_(std::move(around)), context_(context), handle_(handle) {}
  nccl_communicator(const nccl_communicator&) = delete;
  nccl_communicator& operator=(const nccl_communicator&) = delete;
  ~nccl_communicator() override;

  error connect(const wait_step& step) override;
  error failure() const override;
  void abort() override;

  /// Submits the calls of the plan to the stream, as one group. The device's context has to be current. `word` is that of
  /// the launch. If the wait for NCCL is ended by `step`, NCCL may submit kernels later: the launch must not be ended on
  /// the stream then (`unfinished`), and the word is ended when the communicator has been freed.
  device_stream::submitted call(const device_plan& plan, CUstream stream,
                                std::shared_ptr<progress_words::word> word, const wait_step& step);

  /// There are no other communicators.
  static nccl_communicator& of(communicator& any);

private:
  ncclResult_t submit(const device_plan& plan, CUstream stream) const;
  error wait_for(const char* function, ncclResult_t result, const wait_step& step) const;
  void free();

  surroundings around_;
  CUcontext context_;
  ncclComm_t handle_;
  bool connected_ = false;
  bool aborted_ = false;
  std::shared_ptr<progress_words::word> last_;       ///< of the last launch
  std::shared_ptr<progress_words::word> unfinished_; ///< of a launch that NCCL may still submit
};

} // namespace farandole
