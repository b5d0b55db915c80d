// The stand-in driver, as the stand-in for NCCL calls it: by the name of its library, which the process has loaded.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <memory>

namespace fake_nccl {

/// Functions that the driver exports. fake_launch_testing.cpp describes those whose names begin with "fake".
struct driver {
  decltype(&cuDevicePrimaryCtxRetain) retain_context = nullptr;
  decltype(&cuDevicePrimaryCtxRelease) release_context = nullptr;
  CUresult (*launch)(CUcontext, const CUstream*, unsigned, int, void (*)(void*), void (*)(void*),
                     void*) = nullptr;
  CUresult (*reach)(CUdeviceptr, std::size_t, int*, unsigned char**, void**) = nullptr;
  void (*unreach)(void*) = nullptr;
  int (*current_device)() = nullptr;
  void (*wait_for_context)(CUcontext) = nullptr;

  /// Null if the process has not loaded the stand-in driver.
  static const driver* loaded();
};

/// Memory of a device, as the stand-in reaches it. Copies share it; the memory stays until the last is gone.
struct device_bytes {
  unsigned char* content = nullptr;
  std::shared_ptr<void> hold;
};

} // namespace fake_nccl
