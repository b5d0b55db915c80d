// The shared result heap: memory for results into which other members write directly. Each member has one
// result heap for each process set and generation. It is a part of the shared segment's memory object, and
// all other members of the host map it as well, so data reaches it in one copy and without the kernel.
//
// A writer that was stopped may write late. So a block that was published to other members is reused only
// after all of them have published that they are done with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "collectives/transport/shm/free_ranges.hpp"
#include "collectives/transport/shm/sealed_memory.hpp"
#include "messages/values/descriptor.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// The result heap of this member. Thread-safe. Only allocated blocks take physical memory. Each result in
/// the heap holds a reference to it.
class shared_result_heap {
public:
  /// Maps `bytes` bytes (whole huge pages) of the descriptor `shared` from `offset` (whole pages) on. The
  /// heap duplicates the descriptor; the caller keeps its own.
  static expected<std::shared_ptr<shared_result_heap>> open(int shared, std::size_t offset,
                                                            std::size_t bytes);
  /// Default size of a heap: the memory size of this machine, within bounds. Unused memory costs nothing.
  static std::size_t usual_bytes();

  std::size_t size() const { return memory_.size(); }

  /// Allocates whole pages and backs them with physical memory, so that later writes cannot fail. Returns
  /// null if the heap has no room or the machine has no memory.
  std::byte* take(std::size_t bytes);
  /// Frees a block of take(), with the same size, and its physical memory.
  void give_back(std::byte* block, std::size_t bytes);
  /// Frees the physical memory of a block into which other members may still write. The address range is
  /// never allocated again.
  void abandon(std::byte* block, std::size_t bytes);
  /// Offset of a block from the start of the heap.
  std::uint64_t offset_of(const std::byte* block) const {
    return static_cast<std::uint64_t>(block - memory_.data());
  }

private:
  shared_result_heap(descriptor shared, std::size_t offset, shared_mapping memory);
  std::optional<std::size_t> claim(std::size_t bytes);
  bool fill(std::byte* block, std::size_t bytes);

  descriptor shared_;
  std::size_t offset_; ///< of the heap in the memory of shared_
  shared_mapping memory_;
  int process_; ///< the process that opened the heap; a forked child must not free its parent's pages
  std::mutex mutex_;
  free_ranges free_;
};

/// A mapping of a member's result heap, for writing into it.
class result_heap_view {
public:
  static expected<result_heap_view> open(int shared, std::size_t offset, std::size_t bytes);

  /// Address of `bytes` bytes at `offset`. Null unless all of them are inside the heap.
  std::byte* at(std::uint64_t offset, std::size_t bytes) const;

private:
  explicit result_heap_view(shared_mapping memory) : memory_(std::move(memory)) {}

  shared_mapping memory_;
};

class shm_segment;

/// The result heaps of all members of one host, as mapped by one of them.
struct result_heaps {
  std::shared_ptr<shared_result_heap> own;
  std::vector<result_heap_view> views; ///< by member, including this one

  /// Maps the heaps of a segment. Call it before shm_segment::drop_descriptor().
  static expected<std::shared_ptr<const result_heaps>> open(const shm_segment& shared, std::uint32_t rank);
};

} // namespace farandole
