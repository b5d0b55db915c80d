// The shared result heap: where a member's results stand while others write into them. Each member has one
// result heap for a set in a generation, a part of the memory object of the segment; all other members of the host
// map it as well, so bytes get there in one copy, without the kernel. A writer that was stopped may write
// late. So a place that was shown to others is used again only once all of them have said that they are done
// with it.
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

/// A member's own. Thread-safe. It takes no memory but for what is out, and lives as long as a result in it.
class shared_result_heap {
public:
  /// Of `shared`, which is duplicated: `bytes` (whole huge pages) from `offset` (whole pages) on.
  static expected<std::shared_ptr<shared_result_heap>> open(int shared, std::size_t offset,
                                                            std::size_t bytes);
  /// As much as this machine's memory, within bounds: what is not used costs nothing.
  static std::size_t usual_bytes();

  std::size_t size() const { return memory_.size(); }

  /// Whole pages; null where there is no room, or no memory: nothing that is written there can fail.
  std::byte* take(std::size_t bytes);
  /// What was taken, with as many bytes. Its pages go.
  void give_back(std::byte* place, std::size_t bytes);
  /// Likewise, but somebody may still write there: nobody is given it again.
  void abandon(std::byte* place, std::size_t bytes);
  /// Of what was taken, from the start of the result heap.
  std::uint64_t offset_of(const std::byte* place) const {
    return static_cast<std::uint64_t>(place - memory_.data());
  }

private:
  shared_result_heap(descriptor shared, std::size_t offset, shared_mapping memory);
  std::optional<std::size_t> claim(std::size_t bytes);
  bool fill(std::byte* place, std::size_t bytes);

  descriptor shared_;
  std::size_t offset_; ///< in the shared memory
  shared_mapping memory_;
  int process_; ///< a forked child must not take pages from its parent's results
  std::mutex mutex_;
  free_ranges free_;
};

/// Another member's result heap, seen from here.
class result_heap_view {
public:
  static expected<result_heap_view> open(int shared, std::size_t offset, std::size_t bytes);

  /// Null when that is not all inside.
  std::byte* at(std::uint64_t offset, std::size_t bytes) const;

private:
  explicit result_heap_view(shared_mapping memory) : memory_(std::move(memory)) {}

  shared_mapping memory_;
};

class shm_segment;

/// The result heaps of the members of one host, as one of them sees them.
struct result_heaps {
  std::shared_ptr<shared_result_heap> own;
  std::vector<result_heap_view> views; ///< by member, this one included

  /// Of a segment that has its descriptor yet.
  static expected<std::shared_ptr<const result_heaps>> open(const shm_segment& shared, std::uint32_t rank);
};

} // namespace farandole
