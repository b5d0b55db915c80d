// The memory that the members of a set on one host share, for one generation. One member makes it, the others
// adopt its descriptor; it is sealed, so nobody can shrink it under another, and nothing in it is believed
// before it has been compared with what this member expects. A segment is never reused: a member that was
// frozen may still have it mapped.
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

/// What all members must agree on; stands at the start of the segment.
struct segment_layout {
  std::uint64_t generation = 0;
  std::uint32_t set = 0;
  std::uint32_t members = 1;                          ///< on this host
  std::uint32_t slots = 4;                            ///< data slots of each member
  std::uint64_t chunk_bytes = std::uint64_t{1} << 20; ///< of one slot
  std::uint64_t fast_path_bytes = 0;                  ///< fast path area of each member
  std::uint64_t staging_bytes = 0; ///< of each member, for collectives that its callers run (staging_heap)
  std::uint64_t heap_bytes = 0;    ///< of each member's results, which is mapped by itself (result_arenas)

  /// What is wrong with it, if anything is.
  farandole::error check() const;
  /// Of the memory that all members map: without the result heaps, which stand behind it.
  std::size_t segment_bytes() const;
  /// Of the whole object, result heaps included. Pages that are never touched cost nothing.
  std::size_t total_bytes() const;

  friend bool operator==(const segment_layout&, const segment_layout&) = default;
};

/// How far one member has come with the steps of a channel (shm_channel.hpp). Each counts steps, grows only,
/// and is written by its member alone.
struct member_progress {
  shared_counter packed;   ///< its data of step s stands in slot s % slots: s + 1
  shared_counter reduced;  ///< its segment of step s is reduced: s + 1
  shared_counter released; ///< it reads no slot of step s any more: s + 1
};

/// Of one member's lane.
struct member_counters : member_progress {
  /// Where its lane works: the first step of the bundle plus one in the upper half, the core in the lower.
  alignas(64) std::atomic<std::uint64_t> place;
  /// Counts up while its process makes progress; see heartbeat_words.hpp.
  alignas(64) std::atomic<std::uint32_t> heartbeat;
};

class shm_segment {
public:
  static expected<std::unique_ptr<shm_segment>> create(const segment_layout& layout);
  /// Size, seals and header must be those of `wanted`.
  static expected<std::unique_ptr<shm_segment>> adopt(descriptor shared, const segment_layout& wanted);
  shm_segment(const shm_segment&) = delete;
  shm_segment& operator=(const shm_segment&) = delete;

  const segment_layout& layout() const { return layout_; }
  /// To hand to the other members, and to map the result heaps from; -1 once dropped.
  int shared_descriptor() const { return shared_.get(); }
  /// Everybody has it: nobody else will.
  void drop_descriptor() { shared_.close(); }

  member_counters& counters(std::uint32_t member);
  /// `index` < slots.
  std::byte* slot(std::uint32_t member, std::uint32_t index);
  std::span<std::byte> fast_path(std::uint32_t member);
  /// Begins at a page.
  std::span<std::byte> staging(std::uint32_t member);

  /// Takes the pages of this member's own slot before its first use, at a fraction of what single faults
  /// cost. Called by the lane only; remembers what it has done.
  void prefault(std::uint32_t member, std::uint32_t index, std::size_t bytes);

private:
  shm_segment(const segment_layout& layout, descriptor shared, shared_mapping memory);
  std::byte* area(std::uint32_t member);

  segment_layout layout_;
  descriptor shared_;
  shared_mapping memory_;
  std::vector<std::size_t> prefaulted_; ///< by slot
};

} // namespace farandole
