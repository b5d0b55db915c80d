#include "cuda/fake/fake_memory_testing.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "cuda/fake/fake_calls_testing.hpp"
#include "cuda/fake/fake_capture_testing.hpp"
#include "cuda/fake/fake_contexts_testing.hpp"

#define FAKE extern "C" __attribute__((visibility("default")))

namespace fake {

namespace {

/// Never destroyed, as other threads may call the driver while the process ends.
struct allocations {
  std::mutex mutex;
  std::map<CUdeviceptr, std::shared_ptr<const allocation>> by_address;
};

allocations& all_allocations() {
  static auto& all = *new allocations;
  return all;
}

/// With a page behind it that no allocation has, so that no two are adjacent.
std::size_t pages_for(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page + page;
}

unsigned char* map(std::size_t bytes, int rights) {
  void* mapped =
      ::mmap(nullptr, pages_for(bytes), rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return mapped != MAP_FAILED ? static_cast<unsigned char*>(mapped) : nullptr;
}

CUresult allocate(memory_type type, std::size_t bytes, std::size_t part_bytes, CUdeviceptr& address) {
  if (current_context() == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (const auto refused = refuse_while_captured(); refused != CUDA_SUCCESS)
    return refused;
  if (bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_shared<allocation>();
  made->type = type;
  made->context = current_context();
  made->bytes = bytes;
  made->part_bytes = part_bytes;
  made->mapped_bytes = pages_for(bytes);
  made->content = map(bytes, PROT_READ | PROT_WRITE);
  made->address = type == memory_type::device ? map(bytes, PROT_NONE) : made->content;
  if (made->content == nullptr || made->address == nullptr)
    return CUDA_ERROR_OUT_OF_MEMORY;
  address = reinterpret_cast<CUdeviceptr>(made->address);
  auto& all = all_allocations();
  const std::lock_guard lock(all.mutex);
  all.by_address.emplace(address, std::move(made));
  return CUDA_SUCCESS;
}

CUresult release(CUdeviceptr address, bool pinned) {
  if (address == 0)
    return CUDA_SUCCESS;
  if (const auto refused = refuse_while_captured(); refused != CUDA_SUCCESS)
    return refused;
  auto& all = all_allocations();
  std::shared_ptr<const allocation> last; // unmapped after the lock
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_address.find(address);
  if (found == all.by_address.end() || (found->second->type == memory_type::pinned) != pinned)
    return CUDA_ERROR_INVALID_VALUE;
  last = std::move(found->second);
  all.by_address.erase(found);
  return CUDA_SUCCESS;
}

std::shared_ptr<const allocation> allocation_at(CUdeviceptr address) {
  auto& all = all_allocations();
  const std::lock_guard lock(all.mutex);
  auto found = all.by_address.upper_bound(address);
  if (found == all.by_address.begin())
    return nullptr;
  --found;
  return address - found->first < found->second->bytes ? found->second : nullptr;
}

void describe(CUdeviceptr address, const allocation* owner, CUpointer_attribute attribute, void* value) {
  const bool pinned = owner != nullptr && owner->type == memory_type::pinned;
  const auto base = owner != nullptr ? reinterpret_cast<CUdeviceptr>(owner->address) : 0;
  const std::size_t part = owner != nullptr ? (address - base) / owner->part_bytes * owner->part_bytes : 0;
  switch (attribute) {
  case CU_POINTER_ATTRIBUTE_CONTEXT:
    *static_cast<CUcontext*>(value) =
        owner != nullptr && owner->part_bytes == owner->bytes ? owner->context : nullptr;
    break;
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    *static_cast<unsigned*>(value) = owner == nullptr ? 0
                                     : pinned         ? CU_MEMORYTYPE_HOST
                                                      : CU_MEMORYTYPE_DEVICE;
    break;
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    *static_cast<unsigned*>(value) = owner != nullptr && owner->type == memory_type::managed ? 1 : 0;
    break;
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    *static_cast<int*>(value) = owner != nullptr ? owner->context->device : -2;
    break;
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    *static_cast<CUdeviceptr*>(value) = owner != nullptr ? base + part : 0;
    break;
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    *static_cast<std::size_t*>(value) =
        owner != nullptr ? std::min(owner->part_bytes, owner->bytes - part) : 0;
    break;
  default:
    break;
  }
}

} // namespace

allocation::~allocation() {
  if (content != nullptr)
    ::munmap(content, mapped_bytes);
  if (address != nullptr && address != content)
    ::munmap(address, mapped_bytes);
}

CUresult reach(CUdeviceptr address, std::size_t bytes, reachable& result) {
  result.owner = allocation_at(address);
  if (result.owner == nullptr) {
    result.content = reinterpret_cast<unsigned char*>(address);
    return CUDA_SUCCESS;
  }
  const auto offset = address - reinterpret_cast<CUdeviceptr>(result.owner->address);
  result.content = result.owner->content + offset;
  return bytes <= result.owner->bytes - offset ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

} // namespace fake

using namespace fake;

FAKE CUresult cuMemAlloc(CUdeviceptr* address, std::size_t bytes) {
  const auto fault = enter("cuMemAlloc");
  return fault != CUDA_SUCCESS ? fault : allocate(memory_type::device, bytes, bytes, *address);
}

FAKE CUresult cuMemAllocManaged(CUdeviceptr* address, std::size_t bytes, unsigned) {
  const auto fault = enter("cuMemAllocManaged");
  return fault != CUDA_SUCCESS ? fault : allocate(memory_type::managed, bytes, bytes, *address);
}

FAKE CUresult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  const auto fault = enter("cuMemHostAlloc");
  CUdeviceptr address = 0;
  const auto result = fault != CUDA_SUCCESS ? fault : allocate(memory_type::pinned, bytes, bytes, address);
  if (result == CUDA_SUCCESS)
    *memory = reinterpret_cast<void*>(address);
  return result;
}

/// Device memory that was mapped in parts of this size, one behind the other, as cuMemMap does. It has no context.
FAKE CUresult fakeMemAllocParts(CUdeviceptr* address, std::size_t bytes, std::size_t part_bytes) {
  return allocate(memory_type::device, bytes, part_bytes, *address);
}

/// Divides device memory in the middle, at the border of a page, as if it had been allocated by two calls.
FAKE CUresult fakeMemDivide(CUdeviceptr address, CUdeviceptr* second) {
  auto& all = all_allocations();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_address.find(address);
  if (found == all.by_address.end() || found->second->bytes % (2 * pages_for(0)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  auto& first = *std::const_pointer_cast<allocation>(found->second);
  const auto half = first.bytes / 2;
  auto rest = std::make_shared<allocation>();
  rest->type = first.type;
  rest->context = first.context;
  rest->address = first.address + half;
  rest->content = first.content + half;
  rest->bytes = rest->part_bytes = half;
  rest->mapped_bytes = first.mapped_bytes - half;
  first.bytes = first.part_bytes = first.mapped_bytes = half;
  *second = address + half;
  all.by_address.emplace(*second, std::move(rest));
  return CUDA_SUCCESS;
}

FAKE CUresult cuMemFree(CUdeviceptr address) {
  const auto fault = enter("cuMemFree");
  return fault != CUDA_SUCCESS ? fault : release(address, false);
}

FAKE CUresult cuMemFreeHost(void* memory) {
  const auto fault = enter("cuMemFreeHost");
  return fault != CUDA_SUCCESS ? fault : release(reinterpret_cast<CUdeviceptr>(memory), true);
}

FAKE CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values,
                                     CUdeviceptr address) {
  if (const auto fault = enter("cuPointerGetAttributes"); fault != CUDA_SUCCESS)
    return fault;
  const auto owner = allocation_at(address);
  for (unsigned i = 0; i < count; ++i)
    describe(address, owner.get(), attributes[i], values[i]);
  return CUDA_SUCCESS;
}
