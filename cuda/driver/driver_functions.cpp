#include "cuda/driver/driver_functions.hpp"

#include <dlfcn.h>

namespace farandole {

namespace {

/// The oldest driver interface that Farandole can use. Drivers from 525 on provide it.
constexpr int oldest_version = 12000;

std::string path_of(void* function, const std::string& otherwise) {
  Dl_info found{};
  return ::dladdr(function, &found) != 0 && found.dli_fname != nullptr ? found.dli_fname : otherwise;
}

error too_old(const std::string& path) {
  return {error_kind::unimplemented, "the NVIDIA driver " + path +
                                         " is too old: Farandole needs one for CUDA 12.0 or later; install "
                                         "version 525 or later of the driver"};
}

/// Looks up functions, and keeps the name of the last one that is missing.
struct function_search {
  PFN_cuGetProcAddress_v12000 look_up;
  std::string missing;

  template <class Function>
  bool find_optional(Function& function, const char* name, int version) {
    void* found = nullptr;
    CUdriverProcAddressQueryResult status{};
    if (look_up(name, &found, version, CU_GET_PROC_ADDRESS_DEFAULT, &status) != CUDA_SUCCESS)
      found = nullptr;
    function = reinterpret_cast<Function>(found);
    return found != nullptr;
  }
  template <class Function>
  void find(Function& function, const char* name, int version) {
    if (!find_optional(function, name, version))
      missing = name;
  }
};

/// Returns the name of a function that is missing, or nothing.
std::string find_all(driver_functions& functions, PFN_cuGetProcAddress_v12000 look_up) {
  function_search search{look_up, {}};
  search.find(functions.init, "cuInit", 2000);
  search.find(functions.driver_version, "cuDriverGetVersion", 2020);
  search.find(functions.error_name, "cuGetErrorName", 6000);
  search.find(functions.error_text, "cuGetErrorString", 6000);
  search.find(functions.device_count, "cuDeviceGetCount", 2000);
  search.find(functions.device, "cuDeviceGet", 2000);
  search.find(functions.device_name, "cuDeviceGetName", 2000);
  search.find(functions.device_memory, "cuDeviceTotalMem", 3020);
  search.find(functions.device_uuid, "cuDeviceGetUuid", 11040);
  search.find(functions.device_attribute, "cuDeviceGetAttribute", 2000);
  search.find(functions.primary_context_retain, "cuDevicePrimaryCtxRetain", 7000);
  search.find(functions.primary_context_release, "cuDevicePrimaryCtxRelease", 11000);
  search.find(functions.context_push, "cuCtxPushCurrent", 4000);
  search.find(functions.context_pop, "cuCtxPopCurrent", 4000);
  search.find(functions.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode", 10010);
  search.find(functions.pointer_attributes, "cuPointerGetAttributes", 7000);
  search.find(functions.event_create, "cuEventCreate", 2000);
  search.find(functions.event_destroy, "cuEventDestroy", 4000);
  search.find(functions.event_record, "cuEventRecord", 2000);
  search.find_optional(functions.context_record_event, "cuCtxRecordEvent", 12050);
  search.find(functions.stream_create, "cuStreamCreateWithPriority", 5050);
  search.find(functions.stream_destroy, "cuStreamDestroy", 4000);
  search.find(functions.stream_query, "cuStreamQuery", 2000);
  search.find(functions.stream_is_capturing, "cuStreamIsCapturing", 10000);
  search.find(functions.stream_wait_event, "cuStreamWaitEvent", 3020);
  search.find(functions.stream_write_value, "cuStreamWriteValue32", 11070);
  search.find(functions.host_allocate, "cuMemHostAlloc", 2020);
  search.find(functions.host_free, "cuMemFreeHost", 2000);
  search.find(functions.device_allocate, "cuMemAlloc", 3020);
  search.find(functions.copy, "cuMemcpyAsync", 4000);
  search.find(functions.module_load, "cuModuleLoadData", 2000);
  search.find(functions.module_unload, "cuModuleUnload", 2000);
  search.find(functions.module_function, "cuModuleGetFunction", 2000);
  search.find(functions.launch_kernel, "cuLaunchKernel", 4000);
  return search.missing;
}

} // namespace

std::string driver_functions::failure(const std::string& function, CUresult result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  error_name(result, &name);
  error_text(result, &text);
  const auto number = "error " + std::to_string(static_cast<int>(result));
  return function + " failed: " + (name != nullptr ? name : number) +
         (text != nullptr ? " (" + std::string(text) + ")" : std::string());
}

error device_failure(const driver_functions& driver, std::int32_t device, const std::string& function,
                     CUresult result) {
  return {error_kind::unknown, "GPU " + std::to_string(device) + ": " + driver.failure(function, result)};
}

expected<driver_functions> load_driver(const std::string& library) {
  void* loaded = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    const char* reason = ::dlerror();
    return error{error_kind::unimplemented,
                 "there is no NVIDIA driver (" + std::string(reason != nullptr ? reason : library) + ")"};
  }
  const auto look_up = reinterpret_cast<PFN_cuGetProcAddress_v12000>(::dlsym(loaded, "cuGetProcAddress_v2"));
  driver_functions functions;
  functions.path = library;
  if (look_up == nullptr) {
    if (void* any = ::dlsym(loaded, "cuInit"))
      return too_old(path_of(any, library));
    return error{error_kind::unimplemented, library + " is not an NVIDIA driver: it has no function cuInit"};
  }
  functions.path = path_of(reinterpret_cast<void*>(look_up), library);
  if (const auto missing = find_all(functions, look_up); !missing.empty())
    return error{error_kind::unimplemented,
                 "the NVIDIA driver " + functions.path + " has no function " + missing};
  if (functions.driver_version(&functions.version) != CUDA_SUCCESS || functions.version < oldest_version)
    return too_old(functions.path);
  return functions;
}

} // namespace farandole
