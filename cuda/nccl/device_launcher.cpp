#include "cuda/nccl/device_launcher.hpp"

#include <string>

#include "cuda/driver/device_stream.hpp"
#include "cuda/kernels/tensor_kernels.hpp"
#include "cuda/nccl/nccl_communicator.hpp"

namespace farandole {

namespace {

class stream_launcher final : public device_launcher {
public:
  stream_launcher(std::shared_ptr<devices> owner, const gpu_uuid& gpu, std::unique_ptr<device_stream> stream,
                  std::unique_ptr<tensor_kernels> kernels)
      : owner_(std::move(owner)), gpu_(gpu), stream_(std::move(stream)), kernels_(std::move(kernels)) {}

  // The device frees the buffer when it is idle, which would have to be waited for; the launchers live as long as the
  // process, and the driver frees it then.
  expected<std::byte*> buffer() override {
    if (buffer_ != nullptr)
      return buffer_;
    const auto& driver = stream_->owner().driver();
    const current_context current(driver, stream_->context());
    if (auto problem = stream_->result_of("cuCtxPushCurrent", current.result()))
      return problem;
    CUdeviceptr memory = 0;
    if (const auto result = driver.device_allocate(&memory, buffer_bytes); result != CUDA_SUCCESS) {
      auto problem = stream_->result_of("cuMemAlloc", result);
      problem.kind = result == CUDA_ERROR_OUT_OF_MEMORY ? error_kind::overloaded : problem.kind;
      return problem;
    }
    buffer_ = reinterpret_cast<std::byte*>(memory);
    return buffer_;
  }

  expected<device_work> launch(const device_plan& plan, std::span<const device_point_ptr> after,
                               communicator* via, const wait_step& step) override {
    return stream_->launch(after, {}, [&](CUstream stream, const auto& word) -> device_stream::submitted {
      if (auto problem = kernels_->run(stream, plan.before))
        return {std::move(problem)};
      if (!plan.calls.empty())
        if (auto given = nccl_communicator::of(*via).call(plan, stream, word, step); given.problem)
          return given;
      return {kernels_->run(stream, plan.after)};
    });
  }

  device_progress progress() const override { return stream_->progress(); }
  error failure() const override { return stream_->failure(); }
  std::int32_t device() const override { return stream_->device(); }
  gpu_uuid gpu() const override { return gpu_; }
  const std::shared_ptr<devices>& owner() const override { return owner_; }

private:
  std::shared_ptr<devices> owner_;
  gpu_uuid gpu_;
  std::unique_ptr<device_stream> stream_;
  std::unique_ptr<tensor_kernels> kernels_;
  std::byte* buffer_ = nullptr;
};

expected<gpu_uuid> uuid_of(const driver_functions& driver, std::int32_t device) {
  CUdevice handle{};
  if (const auto result = driver.device(&handle, device); result != CUDA_SUCCESS)
    return device_failure(driver, device, "cuDeviceGet", result);
  CUuuid uuid{};
  if (const auto result = driver.device_uuid(&uuid, handle); result != CUDA_SUCCESS)
    return device_failure(driver, device, "cuDeviceGetUuid", result);
  return std::to_array(uuid.bytes);
}

} // namespace

expected<std::shared_ptr<device_launcher>> device_launcher::open(std::shared_ptr<devices> owner,
                                                                 std::int32_t device) {
  auto stream = device_stream::open(owner, device);
  if (!stream)
    return stream.error();
  const auto& driver = driver_devices::of(*owner).driver();
  const current_context current(driver, (*stream)->context());
  if (auto problem = (*stream)->result_of("cuCtxPushCurrent", current.result()))
    return problem;
  const auto gpu = uuid_of(driver, device);
  if (!gpu)
    return gpu.error();
  auto kernels = tensor_kernels::open(driver_devices::of(*owner), device);
  if (!kernels)
    return kernels.error();
  return std::shared_ptr<device_launcher>(
      std::make_shared<stream_launcher>(std::move(owner), *gpu, std::move(*stream), std::move(*kernels)));
}

expected<std::shared_ptr<device_launcher>> device_launchers::lend(const std::shared_ptr<devices>& owner,
                                                                  std::int32_t device) {
  std::shared_ptr<device_launcher> lent;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = unused_.find(device); found != unused_.end()) {
      lent = std::move(found->second);
      unused_.erase(found);
    }
  }
  if (!lent) {
    auto opened = device_launcher::open(owner, device);
    if (!opened)
      return opened.error();
    lent = std::move(*opened);
  }
  auto* launcher = lent.get();
  return std::shared_ptr<device_launcher>(launcher,
                                          [this, lent = std::move(lent)](device_launcher* returned) {
                                            const std::lock_guard lock(mutex_);
                                            unused_.emplace(returned->device(), lent);
                                          });
}

} // namespace farandole
