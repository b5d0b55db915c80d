// A stand-in for NVIDIA's driver, libcuda.so.1, over memory of the host. This file has the facts of the driver and its
// GPUs, and the list of its functions. Each call reads these environment variables:
//
//   FARANDOLE_FAKE_GPUS          number of GPUs (2), at most 16
//   FARANDOLE_FAKE_CUDA          the newest CUDA version that it supports (13000)
//   FARANDOLE_FAKE_CUDA_INIT     result of cuInit (0: success)
//   FARANDOLE_FAKE_CUDA_FAILS    functions that fail, with commas between them: NAME fails always, NAME:N from its N-th
//                                call after this variable was changed. Allocations fail with CUDA_ERROR_OUT_OF_MEMORY,
//                                other functions with CUDA_ERROR_UNKNOWN
//   FARANDOLE_FAKE_CUDA_LACKS    name of a function that it does not have
//   FARANDOLE_FAKE_CUDA_STREAMS  "manual": streams run only in fakeStreamRun, and in calls that wait for them
//   FARANDOLE_FAKE_CUDA_STUCK    1: no stream makes progress
//
// For tests alone, it exports fakeStreamRun, fakeStreamCreated, fakeCalls, fakeMemAllocParts and fakeMemDivide.
// fake_launch_testing.cpp exports functions for the stand-in for NCCL.
#include <cuda.h>

#include <cstdio>
#include <cstring>
#include <string_view>

#include "cuda/fake/fake_calls_testing.hpp"
#include "cuda/fake/fake_contexts_testing.hpp"

#define FAKE extern "C" __attribute__((visibility("default")))

using namespace fake;

namespace {

struct text {
  CUresult result;
  const char* name;
  const char* description;
};

constexpr text texts[] = {
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", nullptr},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const char* text_of(CUresult result, const char* text::*member) {
  for (const auto& candidate : texts)
    if (candidate.result == result)
      return candidate.*member;
  return nullptr;
}

struct entry {
  std::string_view name;
  void* function;
};

} // namespace

FAKE CUresult cuInit(unsigned) {
  const auto fault = enter("cuInit");
  return fault != CUDA_SUCCESS ? fault
                               : static_cast<CUresult>(number("FARANDOLE_FAKE_CUDA_INIT", CUDA_SUCCESS));
}

FAKE CUresult cuDriverGetVersion(int* version) {
  *version = number("FARANDOLE_FAKE_CUDA", 13000);
  return enter("cuDriverGetVersion");
}

FAKE CUresult cuGetErrorName(CUresult result, const char** name) {
  *name = text_of(result, &text::name);
  return *name != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

FAKE CUresult cuGetErrorString(CUresult result, const char** description) {
  *description = text_of(result, &text::description);
  return *description != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

FAKE CUresult cuDeviceGetCount(int* count) {
  *count = device_count();
  return enter("cuDeviceGetCount");
}

FAKE CUresult cuDeviceGet(CUdevice* device, int index) {
  *device = index;
  return enter("cuDeviceGet");
}

FAKE CUresult cuDeviceGetName(char* name, int bytes, CUdevice device) {
  std::snprintf(name, static_cast<std::size_t>(bytes), "Stand-in GPU %d", device);
  return enter("cuDeviceGetName");
}

FAKE CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice) {
  *bytes = std::size_t{8} << 30;
  return enter("cuDeviceTotalMem");
}

FAKE CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  std::memset(uuid->bytes, 0x10 + device, sizeof uuid->bytes);
  return enter("cuDeviceGetUuid");
}

FAKE CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9
           : attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT   ? 4
                                                                     : 0;
  return enter("cuDeviceGetAttribute");
}

// The name without a version, and the version of the function that the header selects for it.
#define FUNCTION(name)                                                                                       \
  { #name, reinterpret_cast < void*>(&::name) }

FAKE CUresult cuGetProcAddress(const char* symbol, void** function, int, cuuint64_t,
                               CUdriverProcAddressQueryResult*) {
  static const entry entries[] = {
      FUNCTION(cuInit),
      FUNCTION(cuDriverGetVersion),
      FUNCTION(cuGetErrorName),
      FUNCTION(cuGetErrorString),
      FUNCTION(cuDeviceGetCount),
      FUNCTION(cuDeviceGet),
      FUNCTION(cuDeviceGetName),
      FUNCTION(cuDeviceTotalMem),
      FUNCTION(cuDeviceGetUuid),
      FUNCTION(cuDeviceGetAttribute),
      FUNCTION(cuDevicePrimaryCtxRetain),
      FUNCTION(cuDevicePrimaryCtxRelease),
      FUNCTION(cuCtxCreate),
      FUNCTION(cuCtxPushCurrent),
      FUNCTION(cuCtxPopCurrent),
      FUNCTION(cuCtxGetCurrent),
      FUNCTION(cuCtxSetCurrent),
      FUNCTION(cuCtxGetDevice),
      FUNCTION(cuMemAlloc),
      FUNCTION(cuMemAllocManaged),
      FUNCTION(cuMemHostAlloc),
      FUNCTION(cuMemFree),
      FUNCTION(cuMemFreeHost),
      FUNCTION(cuPointerGetAttributes),
      FUNCTION(cuStreamCreateWithPriority),
      FUNCTION(cuStreamCreate),
      FUNCTION(cuStreamDestroy),
      FUNCTION(cuStreamSynchronize),
      FUNCTION(cuCtxSynchronize),
      FUNCTION(cuStreamQuery),
      FUNCTION(cuStreamWaitEvent),
      FUNCTION(cuEventCreate),
      FUNCTION(cuEventDestroy),
      FUNCTION(cuEventRecord),
      FUNCTION(cuCtxRecordEvent),
      FUNCTION(cuEventQuery),
      FUNCTION(cuEventSynchronize),
      FUNCTION(cuThreadExchangeStreamCaptureMode),
      FUNCTION(cuStreamBeginCapture),
      FUNCTION(cuStreamEndCapture),
      FUNCTION(cuStreamIsCapturing),
      FUNCTION(cuMemcpyAsync),
      FUNCTION(cuMemcpyHtoDAsync),
      FUNCTION(cuMemcpyDtoHAsync),
      FUNCTION(cuMemcpyHtoD),
      FUNCTION(cuMemcpyDtoH),
      FUNCTION(cuMemsetD8Async),
      FUNCTION(cuStreamWriteValue32),
      FUNCTION(cuLaunchHostFunc),
      FUNCTION(cuModuleLoadData),
      FUNCTION(cuModuleUnload),
      FUNCTION(cuModuleGetFunction),
      FUNCTION(cuLaunchKernel),
  };
  for (const auto& [name, address] : entries)
    if (name == symbol && !lacks(symbol)) {
      *function = address;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_NOT_FOUND;
}
