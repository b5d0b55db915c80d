// The memory that the members of a process set on one host share during one generation. One member creates
// the segment, and the others adopt its descriptor. The memory is sealed, so no process can shrink it while
// others use it. A member checks the header against its own layout before it uses anything else in the
// segment. A segment is never reused in a later generation, because a member that was frozen may still have
// it mapped.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/transport/shm/sealed_memory.hpp"
#include "collectives/transport/wait/futex_wait.hpp"
#include "messages/values/descriptor.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// The parameters of a segment. All members must agree on them; the header of the segment holds them.
struct segment_layout {
  std::uint64_t generation = 0;
  std::uint32_t set = 0;
  std::uint32_t members = 1;                          ///< on this host
  std::uint32_t slots = 4;                            ///< data slots of each member
  std::uint64_t chunk_bytes = std::uint64_t{1} << 20; ///< size of one slot
  std::uint64_t fast_path_bytes = 0;                  ///< size of each member's fast-path area
  std::uint64_t staging_bytes = 0; ///< size of each member's staging memory (staging_heap.hpp)
  std::uint64_t heap_bytes = 0;    ///< size of each member's result heap, which has a mapping of its own

  /// Returns `invalid_argument` if a value is out of range.
  farandole::error check() const;
  /// Size of the part that shm_segment maps. The result heaps follow it.
  std::size_t segment_bytes() const;
  /// Size of the whole memory object with the result heaps. Pages that are never touched cost nothing.
  std::size_t total_bytes() const;

  friend bool operator==(const segment_layout&, const segment_layout&) = default;
};

/// The progress of one member in the steps of a channel (shm_channel.hpp). Only that member writes the
/// counters, and they only grow. A counter has the value s + 1 once its condition holds for step s:
struct member_progress {
  shared_counter packed;   ///< the member's data is in slot s % slots
  shared_counter reduced;  ///< the member has reduced its segment
  shared_counter released; ///< the member no longer reads any slot of the step
};

/// The counters of one member's lane, and its heartbeat.
struct member_counters : member_progress {
  /// The lane's placement: the first step of its bundle plus one in the upper half, its core in the lower
  /// half.
  alignas(64) std::atomic<std::uint64_t> placement;
  /// The process increments it while it makes progress; see heartbeat_words.hpp.
  alignas(64) std::atomic<std::uint32_t> heartbeat;
};

class shm_segment {
public:
  static expected<std::unique_ptr<shm_segment>> create(const segment_layout& layout);
  /// Maps the segment of another member. Fails unless its size, seals and header match `wanted`.
  static expected<std::unique_ptr<shm_segment>> adopt(descriptor shared, const segment_layout& wanted);
  shm_segment(const shm_segment&) = delete;
  shm_segment& operator=(const shm_segment&) = delete;

  const segment_layout& layout() const { return layout_; }
  /// The descriptor to pass to the other members and to map the result heaps from; -1 after
  /// drop_descriptor().
  int shared_descriptor() const { return shared_.get(); }
  /// Closes the descriptor. Call it when all members have adopted the segment.
  void drop_descriptor() { shared_.close(); }

  member_counters& counters(std::uint32_t member);
  /// `index` must be less than the number of slots.
  std::byte* slot(std::uint32_t member, std::uint32_t index);
  std::span<std::byte> fast_path(std::uint32_t member);
  /// Page-aligned.
  std::span<std::byte> staging(std::uint32_t member);

  /// Populates the pages of this member's own slot before their first use, which is cheaper than single page
  /// faults. Does nothing for pages that are already populated. Only the lane may call it.
  void prefault(std::uint32_t member, std::uint32_t index, std::size_t bytes);

private:
  shm_segment(const segment_layout& layout, descriptor shared, shared_mapping memory);
  std::byte* area(std::uint32_t member);

  segment_layout layout_;
  descriptor shared_;
  shared_mapping memory_;
  std::vector<std::size_t> prefaulted_; ///< number of populated bytes, by slot
};

} // namespace farandole
