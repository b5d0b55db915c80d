#include "cuda/fake/fake_contexts_testing.hpp"

#include <array>
#include <mutex>
#include <vector>

#include "cuda/fake/fake_calls_testing.hpp"
#include "cuda/fake/fake_streams_testing.hpp"

#define FAKE extern "C" __attribute__((visibility("default")))

namespace fake {

namespace {

constexpr int most_devices = 16;

/// Never destroyed, as other threads may call the driver while the process ends.
struct contexts {
  std::mutex mutex;
  std::array<CUctx_st, most_devices> primary;
  std::vector<std::unique_ptr<CUctx_st>> others;

  contexts() {
    for (int device = 0; device < most_devices; ++device)
      begin(primary[device], device);
  }
  static void begin(CUctx_st& context, int device) {
    context.device = device;
    context.default_stream = make_default_stream(&context);
  }
};

contexts& all_contexts() {
  static auto& all = *new contexts;
  return all;
}

thread_local std::vector<CUcontext> current;

} // namespace

CUcontext current_context() {
  return current.empty() ? nullptr : current.back();
}

int device_count() {
  return number("FARANDOLE_FAKE_GPUS", 2);
}

} // namespace fake

using namespace fake;

FAKE CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (const auto fault = enter("cuDevicePrimaryCtxRetain"); fault != CUDA_SUCCESS)
    return fault;
  if (device < 0 || device >= device_count() || device >= most_devices)
    return CUDA_ERROR_INVALID_DEVICE;
  auto& all = all_contexts();
  const std::lock_guard lock(all.mutex);
  ++all.primary[device].retained;
  *context = &all.primary[device];
  return CUDA_SUCCESS;
}

FAKE CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  if (const auto fault = enter("cuDevicePrimaryCtxRelease"); fault != CUDA_SUCCESS)
    return fault;
  auto& all = all_contexts();
  const std::lock_guard lock(all.mutex);
  if (device < 0 || device >= most_devices || all.primary[device].retained == 0)
    return CUDA_ERROR_INVALID_CONTEXT;
  --all.primary[device].retained;
  return CUDA_SUCCESS;
}

FAKE CUresult cuCtxCreate(CUcontext* context, CUctxCreateParams*, unsigned, CUdevice device) {
  if (const auto fault = enter("cuCtxCreate"); fault != CUDA_SUCCESS)
    return fault;
  auto& all = all_contexts();
  const std::lock_guard lock(all.mutex);
  auto& made = *all.others.emplace_back(std::make_unique<CUctx_st>());
  contexts::begin(made, device);
  *context = &made;
  current.push_back(&made);
  return CUDA_SUCCESS;
}

FAKE CUresult cuCtxPushCurrent(CUcontext context) {
  if (const auto fault = enter("cuCtxPushCurrent"); fault != CUDA_SUCCESS)
    return fault;
  if (context == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  current.push_back(context);
  return CUDA_SUCCESS;
}

FAKE CUresult cuCtxPopCurrent(CUcontext* context) {
  if (const auto fault = enter("cuCtxPopCurrent"); fault != CUDA_SUCCESS)
    return fault;
  if (current.empty())
    return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr)
    *context = current.back();
  current.pop_back();
  return CUDA_SUCCESS;
}

FAKE CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = current_context();
  return enter("cuCtxGetCurrent");
}

FAKE CUresult cuCtxSetCurrent(CUcontext context) {
  if (const auto fault = enter("cuCtxSetCurrent"); fault != CUDA_SUCCESS)
    return fault;
  if (!current.empty())
    current.pop_back();
  if (context != nullptr)
    current.push_back(context);
  return CUDA_SUCCESS;
}

FAKE CUresult cuCtxGetDevice(CUdevice* device) {
  if (const auto fault = enter("cuCtxGetDevice"); fault != CUDA_SUCCESS)
    return fault;
  if (current_context() == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  *device = current_context()->device;
  return CUDA_SUCCESS;
}
