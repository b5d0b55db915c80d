#include "cuda/driver/driver_start.hpp"

#include <cstdlib>
#include <string>

namespace farandole {

namespace {

std::string visible_devices() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr
             ? std::string()
             : "; CUDA_VISIBLE_DEVICES=\"" + std::string(visible) + "\" determines which ones it may see";
}

error no_gpu(const driver_functions& driver) {
  return {error_kind::unimplemented,
          "the NVIDIA driver " + driver.path + " finds no GPU" + visible_devices()};
}

} // namespace

expected<std::int32_t> start_driver(const driver_functions& driver) {
  if (const auto result = driver.init(0); result == CUDA_ERROR_NO_DEVICE)
    return no_gpu(driver);
  else if (result != CUDA_SUCCESS)
    return error{error_kind::unknown,
                 "the NVIDIA driver " + driver.path + " cannot be used: " + driver.failure("cuInit", result)};
  int count = 0;
  if (const auto result = driver.device_count(&count); result != CUDA_SUCCESS)
    return error{error_kind::unknown, "the NVIDIA driver " + driver.path + " cannot list its GPUs: " +
                                          driver.failure("cuDeviceGetCount", result)};
  if (count == 0)
    return no_gpu(driver);
  return count;
}

} // namespace farandole
