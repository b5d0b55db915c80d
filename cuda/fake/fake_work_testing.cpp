// The functions of the stand-in driver that give streams copies, writes and calls.
#include <cuda.h>

#include <cstring>

#include "cuda/fake/fake_calls_testing.hpp"
#include "cuda/fake/fake_contexts_testing.hpp"
#include "cuda/fake/fake_memory_testing.hpp"
#include "cuda/fake/fake_streams_testing.hpp"

#define FAKE extern "C" __attribute__((visibility("default")))

using namespace fake;

namespace {

CUresult copy(const char* function, CUdeviceptr target, CUdeviceptr source, std::size_t bytes,
              CUstream stream) {
  reachable to, from;
  for (auto result : {reach(target, bytes, to), reach(source, bytes, from)})
    if (result != CUDA_SUCCESS)
      return result;
  return give_work(function, stream, [=] { std::memcpy(to.content, from.content, bytes); });
}

CUdeviceptr address_of(const void* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

/// Copies in the default stream, and waits.
CUresult copy_now(const char* function, CUdeviceptr target, CUdeviceptr source, std::size_t bytes) {
  if (const auto result = copy(function, target, source, bytes, nullptr); result != CUDA_SUCCESS)
    return result;
  auto& all = streams::all();
  std::unique_lock lock(all.mutex);
  return all.wait(all.before(all.find(nullptr)), lock);
}

} // namespace

FAKE CUresult cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, std::size_t bytes, CUstream stream) {
  return copy("cuMemcpyAsync", target, source, bytes, stream);
}

FAKE CUresult cuMemcpyHtoDAsync(CUdeviceptr target, const void* source, std::size_t bytes, CUstream stream) {
  return copy("cuMemcpyHtoDAsync", target, address_of(source), bytes, stream);
}

FAKE CUresult cuMemcpyDtoHAsync(void* target, CUdeviceptr source, std::size_t bytes, CUstream stream) {
  return copy("cuMemcpyDtoHAsync", address_of(target), source, bytes, stream);
}

FAKE CUresult cuMemcpyHtoD(CUdeviceptr target, const void* source, std::size_t bytes) {
  return copy_now("cuMemcpyHtoD", target, address_of(source), bytes);
}

FAKE CUresult cuMemcpyDtoH(void* target, CUdeviceptr source, std::size_t bytes) {
  return copy_now("cuMemcpyDtoH", address_of(target), source, bytes);
}

FAKE CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, std::size_t bytes, CUstream stream) {
  reachable to;
  if (const auto result = reach(target, bytes, to); result != CUDA_SUCCESS)
    return result;
  return give_work("cuMemsetD8Async", stream, [=] { std::memset(to.content, value, bytes); });
}

FAKE CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr target, cuuint32_t value, unsigned) {
  reachable to;
  if (reach(target, sizeof value, to) != CUDA_SUCCESS || to.owner == nullptr || target % sizeof value != 0)
    return CUDA_ERROR_INVALID_VALUE;
  return give_work("cuStreamWriteValue32", stream, [=] {
    __atomic_store_n(reinterpret_cast<cuuint32_t*>(to.content), value, __ATOMIC_RELEASE);
  });
}

FAKE CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* argument) {
  return give_work("cuLaunchHostFunc", stream, [=] { function(argument); });
}
