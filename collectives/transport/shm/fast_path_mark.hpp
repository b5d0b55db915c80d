// How far a member has come with a half of a fast path cell, as one word in shared memory. It says in one store
// whose bytes stand there: the id, the round and the state. It holds the id because the leader may grant the
// place of a forgotten id again: what the old one left there is then never taken for new.
#pragma once

#include <atomic>
#include <cstdint>

#include "collectives/transport/wait/lock_free.hpp"

namespace farandole {

enum class cell_state : std::uint32_t { empty = 0, published = 1, retracted = 2 };

/// id in the high half; round (modulo 2^30) and state in the low half, which is what sleepers watch. The low
/// half is spread by the id, so that two ids' rounds in one place look different there as well.
constexpr std::uint64_t make_word(std::uint32_t id, std::uint64_t round, cell_state state) {
  const std::uint32_t low =
      ((static_cast<std::uint32_t>(round) + id * 0x9e3779b1u) << 2) | static_cast<std::uint32_t>(state);
  return (std::uint64_t{id} << 32) | low;
}

/// Written by one member, read by all. Zero bytes are a valid initial value.
template <class Atomics>
struct basic_fast_path_mark {
  typename Atomics::template atomic<std::uint64_t> word;
  typename Atomics::template atomic<std::uint32_t> waiters;
  /// What goes with the word; ordered by it.
  typename Atomics::template atomic<std::uint32_t> note;

  /// Before the bytes behind the mark are written again: a reader that still looks at them finds the word
  /// changed.
  void hide(std::uint64_t empty) {
    word.store(empty, std::memory_order_relaxed);
    order_word_before_bytes<Atomics>();
  }

  /// All that this member has written before is there for whoever has_come() tells so.
  template <class Wake>
  void show(std::uint64_t next, const Wake& wake) {
    store_and_wake(word, waiters, next, wake);
  }

  bool has_come(std::uint64_t wanted) const { return word.load(std::memory_order_acquire) == wanted; }

  /// Whether the bytes that were read before this call were those of `wanted`.
  bool still_stands(std::uint64_t wanted) const {
    order_bytes_before_word<Atomics>();
    return word.load(std::memory_order_relaxed) == wanted;
  }

  /// Unless the word is not `published` any more. Wakes nobody: those that wait are told otherwise.
  bool take_back(std::uint64_t published, std::uint64_t retracted) {
    return word.compare_exchange_strong(published, retracted, std::memory_order_relaxed,
                                        std::memory_order_relaxed);
  }
};

} // namespace farandole
