#include "cuda/driver/memory_check.hpp"

#include <algorithm>
#include <cstdio>
#include <string>

namespace farandole {

namespace {

/// What the driver knows of an address.
struct memory_facts {
  unsigned type = 0; ///< a CUmemorytype; 0: it knows nothing
  unsigned is_managed = 0;
  int device = -1;
  CUcontext context = nullptr; ///< null if it belongs to none, as memory of pools
  CUdeviceptr begin = 0;
  std::size_t bytes = 0; ///< 0: it does not tell
};

CUresult look_up(const driver_functions& driver, CUdeviceptr address, memory_facts& facts) {
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,   CU_POINTER_ATTRIBUTE_CONTEXT,
                                      CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  void* values[] = {&facts.type,    &facts.is_managed, &facts.device,
                    &facts.context, &facts.begin,      &facts.bytes};
  const auto result = driver.pointer_attributes(std::size(attributes), attributes, values, address);
  if (result != CUDA_ERROR_INVALID_VALUE)
    return result;
  facts = {};
  return CUDA_SUCCESS;
}

/// Empty if the memory is the device's.
std::string problem_with(const memory_facts& facts, CUcontext context, std::int32_t device) {
  if (facts.is_managed != 0)
    return {};
  if (facts.type == CU_MEMORYTYPE_HOST)
    return "is host memory";
  if (facts.type != CU_MEMORYTYPE_DEVICE)
    return "is unknown to the NVIDIA driver";
  if (facts.device != device)
    return "belongs to GPU " + std::to_string(facts.device);
  if (facts.context != nullptr && facts.context != context)
    return "belongs to another CUDA context than the primary one, which Farandole uses";
  return {};
}

std::string hexadecimal(CUdeviceptr address) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", address);
  return text;
}

struct tensor {
  CUdeviceptr begin;
  std::size_t bytes;
  std::int32_t device;
};

/// `address` is the first that is not the device's.
std::string refusal(const tensor& refused, CUdeviceptr address, const std::string& problem) {
  auto text = "a tensor of " + std::to_string(refused.bytes) + " bytes at " + hexadecimal(refused.begin);
  const auto gpu = "memory of GPU " + std::to_string(refused.device);
  if (address == refused.begin)
    return text += " is not in " + gpu + ", as it should be: its memory " + problem;
  text += " exceeds its " + gpu + " by " + std::to_string(refused.begin + refused.bytes - address);
  return text += " bytes: the memory at " + hexadecimal(address) + " " + problem;
}

} // namespace

error check_device_memory(const driver_functions& driver, CUcontext context, const std::byte* memory,
                          std::size_t bytes, std::int32_t device, known_memory& region) {
  const auto begin = reinterpret_cast<CUdeviceptr>(memory);
  const auto end = begin + bytes;
  // Memory may be mapped in several parts, one behind the other (PyTorch's expandable segments).
  for (auto address = begin; address < end;) {
    memory_facts facts;
    if (const auto result = look_up(driver, address, facts); result != CUDA_SUCCESS)
      return device_failure(driver, device, "cuPointerGetAttributes", result);
    if (const auto problem = problem_with(facts, context, device); !problem.empty())
      return {error_kind::invalid_argument, refusal({begin, bytes, device}, address, problem)};
    if (facts.bytes != 0 && address == begin)
      region = {reinterpret_cast<const std::byte*>(facts.begin),
                reinterpret_cast<const std::byte*>(facts.begin + facts.bytes), device};
    address = facts.bytes != 0 ? std::max(facts.begin + facts.bytes, address + 1) : end;
  }
  return {};
}

} // namespace farandole
