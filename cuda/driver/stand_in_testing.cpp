#include "cuda/driver/stand_in_testing.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>

extern const char stand_in_driver_library[]; // CMake defines it

namespace farandole {

namespace {

void expect_success(CUresult result, const char* name) {
  if (result != CUDA_SUCCESS)
    throw std::runtime_error(std::string(name) + ": " + std::to_string(result));
}

template <class Function, class... Arguments>
void call(const char* symbol, Arguments... arguments) {
  expect_success(stand_in_driver::function<Function>(symbol)(arguments...), symbol);
}

CUdeviceptr address_of(const std::byte* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

} // namespace

variable::variable(const char* name, const std::string& value) : name_(name) {
  ::setenv(name, value.c_str(), 1);
}

variable::~variable() {
  ::unsetenv(name_);
}

std::string stand_in_driver::path() {
  return stand_in_driver_library;
}

void* stand_in_driver::find(const char* symbol) {
  static void* library = ::dlopen(stand_in_driver_library, RTLD_NOW | RTLD_LOCAL);
  void* found = library != nullptr ? ::dlsym(library, symbol) : nullptr;
  if (found == nullptr)
    throw std::runtime_error(symbol);
  return found;
}

stand_in_driver::stand_in_driver(int device) {
  CUcontext context = nullptr;
  call<decltype(cuInit)>("cuInit", 0);
  call<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain", &context, device);
  call<decltype(cuCtxPushCurrent)>("cuCtxPushCurrent_v2", context);
}

stand_in_driver::~stand_in_driver() {
  for (auto* stream : streams_)
    function<decltype(cuStreamDestroy)>("cuStreamDestroy_v2")(stream);
  for (auto address : memory_)
    function<decltype(cuMemFree)>("cuMemFree_v2")(address);
  for (auto* memory : pinned_)
    function<decltype(cuMemFreeHost)>("cuMemFreeHost")(memory);
  CUdevice device = 0;
  CUcontext context = nullptr;
  function<decltype(cuCtxGetDevice)>("cuCtxGetDevice")(&device);
  function<decltype(cuCtxPopCurrent)>("cuCtxPopCurrent_v2")(&context);
  function<decltype(cuDevicePrimaryCtxRelease)>("cuDevicePrimaryCtxRelease_v2")(device);
}

std::byte* stand_in_driver::device_memory(std::size_t bytes) {
  call<decltype(cuMemAlloc)>("cuMemAlloc_v2", &memory_.emplace_back(), bytes);
  return reinterpret_cast<std::byte*>(memory_.back());
}

std::byte* stand_in_driver::managed_memory(std::size_t bytes) {
  call<decltype(cuMemAllocManaged)>("cuMemAllocManaged", &memory_.emplace_back(), bytes,
                                    CU_MEM_ATTACH_GLOBAL);
  return reinterpret_cast<std::byte*>(memory_.back());
}

std::byte* stand_in_driver::pinned_memory(std::size_t bytes) {
  call<decltype(cuMemHostAlloc)>("cuMemHostAlloc", &pinned_.emplace_back(), bytes, 0);
  return static_cast<std::byte*>(pinned_.back());
}

CUstream stand_in_driver::stream(unsigned flags) {
  call<decltype(cuStreamCreate)>("cuStreamCreate", &streams_.emplace_back(), flags);
  return streams_.back();
}

void stand_in_driver::write(std::byte* device_memory, const std::vector<std::byte>& bytes) {
  call<decltype(cuMemcpyHtoD)>("cuMemcpyHtoD_v2", address_of(device_memory), bytes.data(), bytes.size());
}

std::vector<std::byte> stand_in_driver::read(const std::byte* device_memory, std::size_t bytes) {
  std::vector<std::byte> result(bytes);
  call<decltype(cuMemcpyDtoH)>("cuMemcpyDtoH_v2", result.data(), address_of(device_memory), bytes);
  return result;
}

void stand_in_driver::fill(std::byte* device_memory, int value, std::size_t bytes, CUstream stream) {
  call<decltype(cuMemsetD8Async)>("cuMemsetD8Async", address_of(device_memory), value, bytes, stream);
}

bool stand_in_driver::is_idle(CUstream stream) {
  return function<decltype(cuStreamQuery)>("cuStreamQuery")(stream) == CUDA_SUCCESS;
}

unsigned stand_in_driver::run(CUstream stream, unsigned count) {
  return function<unsigned(CUstream, unsigned)>("fakeStreamRun")(stream, count);
}

CUstream stand_in_driver::created_stream(unsigned age) {
  return function<CUstream(unsigned)>("fakeStreamCreated")(age);
}

unsigned long stand_in_driver::calls(const char* name) {
  return function<unsigned long(const char*)>("fakeCalls")(name);
}

unsigned long stand_in_driver::synchronising_calls() {
  unsigned long result = 0;
  for (const auto* name : {"cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize", "cuMemcpyHtoD",
                           "cuMemcpyDtoH", "cuMemFree", "cuStreamQuery", "cuEventQuery"})
    result += calls(name);
  return result;
}

} // namespace farandole
