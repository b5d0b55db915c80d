// The state of one half of a fast-path cell, as one word in shared memory. A single store publishes which
// bytes the half holds: the id, the round and the state. The word contains the id because the leader may
// reuse the location of a forgotten id; a leftover word of the old id then never matches.
#pragma once

#include <atomic>
#include <cstdint>

#include "collectives/transport/wait/lock_free.hpp"

namespace farandole {

enum class cell_state : std::uint32_t { empty = 0, published = 1, retracted = 2 };

/// The id is in the high half. The round (modulo 2^30) and the state are in the low half, which is the futex
/// word of sleeping threads. The round is offset by a hash of the id, so that the low halves of two ids that
/// use the same location differ as well.
constexpr std::uint64_t make_word(std::uint32_t id, std::uint64_t round, cell_state state) {
  const std::uint32_t low =
      ((static_cast<std::uint32_t>(round) + id * 0x9e3779b1u) << 2) | static_cast<std::uint32_t>(state);
  return (std::uint64_t{id} << 32) | low;
}

/// A sequence lock that one member writes and all members read. Zero-filled memory is a valid initial value.
template <class Atomics>
struct basic_fast_path_mark {
  typename Atomics::template atomic<std::uint64_t> word;
  typename Atomics::template atomic<std::uint32_t> waiters;
  /// A value published together with `word`, whose memory order covers it.
  typename Atomics::template atomic<std::uint32_t> note;

  /// Call it before the bytes behind the mark are overwritten. A reader that is still reading them then finds
  /// the word changed.
  void hide(std::uint64_t empty) {
    word.store(empty, std::memory_order_relaxed);
    order_word_before_bytes<Atomics>();
  }

  /// Publishes `next`. All earlier writes of this member happen-before the return of a has_come() call that
  /// returns true for `next`.
  template <class Wake>
  void show(std::uint64_t next, const Wake& wake) {
    store_and_wake(word, waiters, next, wake);
  }

  bool has_come(std::uint64_t wanted) const { return word.load(std::memory_order_acquire) == wanted; }

  /// Whether the bytes that the caller read before this call belonged to `wanted`.
  bool still_stands(std::uint64_t wanted) const {
    order_bytes_before_word<Atomics>();
    return word.load(std::memory_order_relaxed) == wanted;
  }

  /// Replaces `published` with `retracted`; returns false if the word is no longer `published`. Wakes no
  /// waiter: the waiting members are notified by other means.
  bool take_back(std::uint64_t published, std::uint64_t retracted) {
    return word.compare_exchange_strong(published, retracted, std::memory_order_relaxed,
                                        std::memory_order_relaxed);
  }
};

} // namespace farandole
