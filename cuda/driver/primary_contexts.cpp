#include "cuda/driver/primary_contexts.hpp"

#include <string>

namespace farandole {

primary_contexts::~primary_contexts() {
  for (std::int32_t device = 0; device < count(); ++device)
    if (contexts_[device] != nullptr)
      driver_.primary_context_release(device);
}

expected<CUcontext> primary_contexts::get(std::int32_t device) {
  if (device < 0 || device >= count())
    return error{error_kind::invalid_argument, "there is no GPU " + std::to_string(device) +
                                                   ": this process may use " + std::to_string(count()) +
                                                   " (CUDA_VISIBLE_DEVICES)"};
  const std::lock_guard lock(mutex_);
  auto& context = contexts_[device];
  CUdevice handle = 0;
  if (context != nullptr)
    return context;
  if (const auto result = driver_.device(&handle, device); result != CUDA_SUCCESS)
    return device_failure(driver_, device, "cuDeviceGet", result);
  if (const auto result = driver_.primary_context_retain(&context, handle); result != CUDA_SUCCESS) {
    context = nullptr;
    return device_failure(driver_, device, "cuDevicePrimaryCtxRetain", result);
  }
  return context;
}

current_context::current_context(const driver_functions& driver, CUcontext context)
    : driver_(driver), result_(driver.context_push(context)) {
  if (result_ == CUDA_SUCCESS)
    driver_.exchange_capture_mode(&mode_);
}

current_context::~current_context() {
  if (result_ != CUDA_SUCCESS)
    return;
  CUcontext popped = nullptr;
  driver_.exchange_capture_mode(&mode_);
  driver_.context_pop(&popped);
}

} // namespace farandole
