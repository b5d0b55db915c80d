// A ring that keeps the most recent events of one thread. The owner overwrites the oldest event and never waits. Other
// threads and processes read concurrently, and discard events that the owner may have been overwriting meanwhile.
//
// The owner writes the words of event n only after it has published the count n. A reader copies events, and then reads
// the count again. Every word is stored with release order and loaded with acquire order; so if a copy has a word of
// event n, the second count is at least n, and the reader knows that the slot of event n - capacity was overwritten.
// If the owner dies between two stores, the event that it was writing is not counted.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "messages/record/event.hpp"

namespace farandole {

/// At the start of a ring, in memory that several processes may map. Zero-filled memory is a valid, free ring.
struct event_ring_header {
  std::atomic<std::uint64_t> written; ///< number of events so far
  std::atomic<std::uint32_t> thread;  ///< thread id of the owner; 0: free
  std::uint32_t reserved;
  std::array<std::atomic<char>, 16> thread_name; ///< ends with 0; set by the owner
  std::byte padding[32];
};
static_assert(sizeof(event_ring_header) == 64);

/// One event in shared memory.
using event_words = std::array<std::atomic<std::uint64_t>, 4>;
static_assert(sizeof(event_words) == sizeof(event) && std::atomic<std::uint64_t>::is_always_lock_free);

/// A reference to a ring in memory that must outlive it.
class event_ring {
public:
  /// `slots`: a power of two of them.
  event_ring(event_ring_header& header, std::span<event_words> slots) : header_(&header), slots_(slots) {}

  event_ring_header& header() const { return *header_; }
  std::size_t capacity() const { return slots_.size(); }

  /// The owner's thread only.
  void write(const event& entry) {
    const auto count = header_->written.load(std::memory_order_relaxed);
    auto& slot = slots_[count & (slots_.size() - 1)];
    const auto words = std::bit_cast<std::array<std::uint64_t, 4>>(entry);
    for (std::size_t i = 0; i < words.size(); ++i)
      slot[i].store(words[i], std::memory_order_release);
    header_->written.store(count + 1, std::memory_order_release);
  }

  struct excerpt {
    std::vector<event> events;
    std::uint64_t end = 0;     ///< number of the event after the last one
    std::uint64_t dropped = 0; ///< events from `from` on that were overwritten before they were read
  };
  /// Copies the events from number `from` on, oldest first. Any thread.
  excerpt read(std::uint64_t from) const {
    excerpt result;
    const auto end = header_->written.load(std::memory_order_acquire);
    from = from < end ? from : end;
    const auto oldest = end > capacity() ? end - capacity() : 0;
    auto begin = from > oldest ? from : oldest;
    result.events.reserve(end - begin);
    for (auto number = begin; number < end; ++number) {
      auto& slot = slots_[number & (slots_.size() - 1)];
      std::array<std::uint64_t, 4> words;
      for (std::size_t i = 0; i < words.size(); ++i)
        words[i] = slot[i].load(std::memory_order_acquire);
      result.events.push_back(std::bit_cast<event>(words));
    }
    // The owner may be writing event `end_after` into the slot of event `end_after - capacity`.
    const auto end_after = header_->written.load(std::memory_order_acquire);
    const auto intact = end_after >= capacity() ? end_after - capacity() + 1 : 0;
    if (intact > begin) {
      const auto torn = intact - begin < result.events.size() ? intact - begin : result.events.size();
      result.events.erase(result.events.begin(), result.events.begin() + static_cast<std::ptrdiff_t>(torn));
      begin += torn;
    }
    result.end = end;
    result.dropped = begin - from;
    return result;
  }

private:
  event_ring_header* header_;
  std::span<event_words> slots_;
};

} // namespace farandole
