#include "cuda/driver/pinned_pool.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

namespace farandole {

pinned_block::~pinned_block() {
  pool_->give_back({memory_, bytes_, device_});
}

pinned_pool::~pinned_pool() {
  free_unused(0);
}

expected<std::shared_ptr<const pinned_block>> pinned_pool::take(std::size_t bytes, std::int32_t device) {
  const auto block_bytes = std::bit_ceil(std::max(bytes, least_bytes));
  auto* memory = take_unused(block_bytes, device);
  free_unused(most_unused_bytes);
  if (memory == nullptr) {
    auto allocated = allocate(block_bytes, device);
    if (!allocated && allocated.error().kind == error_kind::overloaded) {
      free_unused(0);
      allocated = allocate(block_bytes, device);
    }
    if (!allocated)
      return allocated.error();
    memory = *allocated;
  }
  return std::make_shared<const pinned_block>(shared_from_this(), memory, block_bytes, device);
}

/// Null if there is none. Sets `device` to the one whose context allocated it.
std::byte* pinned_pool::take_unused(std::size_t bytes, std::int32_t& device) {
  const std::lock_guard lock(mutex_);
  const auto last = std::find_if(unused_.rbegin(), unused_.rend(),
                                 [&](const unused_block& block) { return block.bytes == bytes; });
  if (last == unused_.rend())
    return nullptr;
  auto* memory = last->memory;
  device = last->device;
  unused_bytes_ -= bytes;
  unused_.erase(std::prev(last.base()));
  return memory;
}

expected<std::byte*> pinned_pool::allocate(std::size_t bytes, std::int32_t device) {
  const auto context = contexts_->get(device);
  if (!context)
    return context.error();
  const auto& driver = contexts_->driver();
  const current_context current(driver, *context);
  if (current.result() != CUDA_SUCCESS)
    return device_failure(driver, device, "cuCtxPushCurrent", current.result());
  void* memory = nullptr;
  const auto result =
      driver.host_allocate(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  if (result == CUDA_SUCCESS)
    return static_cast<std::byte*>(memory);
  auto problem = device_failure(driver, device, "cuMemHostAlloc", result);
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    problem.kind = error_kind::overloaded;
  return problem;
}

void pinned_pool::free_unused(std::size_t most_bytes) {
  std::list<unused_block> excess;
  {
    const std::lock_guard lock(mutex_);
    while (unused_bytes_ > most_bytes) {
      unused_bytes_ -= unused_.front().bytes;
      excess.splice(excess.end(), unused_, unused_.begin());
    }
  }
  for (const auto& block : excess)
    if (const auto context = contexts_->get(block.device)) {
      const current_context current(contexts_->driver(), *context);
      contexts_->driver().host_free(block.memory);
    }
}

void pinned_pool::give_back(const unused_block& block) {
  const std::lock_guard lock(mutex_);
  unused_.push_back(block);
  unused_bytes_ += block.bytes;
}

} // namespace farandole
