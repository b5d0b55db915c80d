// The functions of CUDA's driver that Farandole calls. They are looked up at run time (cuGetProcAddress), each in the
// version that its type names, so that a newer driver with other defaults changes nothing.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

#include <cstdint>
#include <string>

#include "messages/values/error.hpp"

namespace farandole {

struct driver_functions {
  std::string path; ///< of the loaded library
  int version = 0;  ///< of CUDA, the newest that it supports: 13000 is 13.0

  PFN_cuInit_v2000 init = nullptr;
  PFN_cuDriverGetVersion_v2020 driver_version = nullptr;
  PFN_cuGetErrorName_v6000 error_name = nullptr;
  PFN_cuGetErrorString_v6000 error_text = nullptr;
  PFN_cuDeviceGetCount_v2000 device_count = nullptr;
  PFN_cuDeviceGet_v2000 device = nullptr;
  PFN_cuDeviceGetName_v2000 device_name = nullptr;
  PFN_cuDeviceTotalMem_v3020 device_memory = nullptr;
  PFN_cuDeviceGetUuid_v11040 device_uuid = nullptr;
  PFN_cuDeviceGetAttribute_v2000 device_attribute = nullptr;

  PFN_cuDevicePrimaryCtxRetain_v7000 primary_context_retain = nullptr;
  PFN_cuDevicePrimaryCtxRelease_v11000 primary_context_release = nullptr;
  PFN_cuCtxPushCurrent_v4000 context_push = nullptr;
  PFN_cuCtxPopCurrent_v4000 context_pop = nullptr;
  PFN_cuThreadExchangeStreamCaptureMode_v10010 exchange_capture_mode = nullptr;
  PFN_cuPointerGetAttributes_v7000 pointer_attributes = nullptr;

  PFN_cuEventCreate_v2000 event_create = nullptr;
  PFN_cuEventDestroy_v4000 event_destroy = nullptr;
  PFN_cuEventRecord_v2000 event_record = nullptr;
  PFN_cuCtxRecordEvent_v12050 context_record_event = nullptr; ///< null before CUDA 12.5
  PFN_cuStreamCreateWithPriority_v5050 stream_create = nullptr;
  PFN_cuStreamDestroy_v4000 stream_destroy = nullptr;
  PFN_cuStreamQuery_v2000 stream_query = nullptr;
  PFN_cuStreamIsCapturing_v10000 stream_is_capturing = nullptr;
  PFN_cuStreamWaitEvent_v3020 stream_wait_event = nullptr;
  PFN_cuStreamWriteValue32_v11070 stream_write_value = nullptr;

  PFN_cuMemHostAlloc_v2020 host_allocate = nullptr;
  PFN_cuMemFreeHost_v2000 host_free = nullptr;
  PFN_cuMemAlloc_v3020 device_allocate = nullptr;
  PFN_cuMemcpyAsync_v4000 copy = nullptr;

  PFN_cuModuleLoadData_v2000 module_load = nullptr;
  PFN_cuModuleUnload_v2000 module_unload = nullptr;
  PFN_cuModuleGetFunction_v2000 module_function = nullptr;
  PFN_cuLaunchKernel_v4000 launch_kernel = nullptr;

  /// "cuInit failed: CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)"
  std::string failure(const std::string& function, CUresult result) const;
};

/// "GPU 0: cuMemHostAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (out of memory)", of kind `unknown`.
error device_failure(const driver_functions& driver, std::int32_t device, const std::string& function,
                     CUresult result);

/// Loads the library, which stays loaded until the process ends. Initialises nothing.
expected<driver_functions> load_driver(const std::string& library);

} // namespace farandole
