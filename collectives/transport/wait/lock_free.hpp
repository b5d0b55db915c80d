// The steps of the lock-free protocols between members, and the memory order that each needs. They are
// templates over the atomics: tests/models compiles them with its own atomics, explores every execution that
// the memory model allows, and shows that each weaker order breaks a protocol. After changing an order here,
// run models_test.
#pragma once

#include <atomic>
#include <cstdint>

namespace farandole {

/// The atomics of this machine; model_atomics in tests/models is the other argument of the templates.
struct machine_atomics {
  template <class T>
  using atomic = std::atomic<T>;
  static void fence(std::memory_order order) { std::atomic_thread_fence(order); }
  /// The 32 bits of a word that a sleeping thread watches: the low half if the word has 64 bits.
  static std::uint32_t load_low_half(const void* word, std::memory_order) {
    return __atomic_load_n(static_cast<const std::uint32_t*>(word), __ATOMIC_SEQ_CST);
  }
};

// ---- sleeping until a word changes ---------------------------------------------------------------
//
// Dekker's algorithm. The publisher stores the word, then reads the number of waiters. A waiter increments
// that number, then reads the word. All four accesses are sequentially consistent, so at least one of the two
// threads sees the store of the other. If the waiter has read too early, the publisher wakes it. The kernel
// compares the word once more and does not let a thread sleep on a changed value, but futex(2) promises no
// memory barriers, so the protocol does not rely on them.

/// Stores `next` and wakes all threads that sleep on the word. Makes no system call if there are none.
template <class Word, class Waiters, class Value, class Wake>
void store_and_wake(Word& word, Waiters& waiters, Value next, const Wake& wake) {
  word.store(next, std::memory_order_seq_cst);
  if (waiters.load(std::memory_order_seq_cst) != 0)
    wake();
}

/// Whether a counter with this value has reached `wanted`. Counters only grow and may wrap around.
constexpr bool has_reached(std::uint32_t value, std::uint32_t wanted) {
  return static_cast<std::int32_t>(value - wanted) >= 0;
}

/// A counter that its owner increases and others wait for. Padded to two cache lines, because processors
/// prefetch adjacent lines in pairs.
template <class Atomics>
struct alignas(128) basic_shared_counter {
  typename Atomics::template atomic<std::uint32_t> value{0};
  typename Atomics::template atomic<std::uint32_t> waiters{0};
  /// The number, with its checksum in the upper half. shared_counter stores it before `value`, so a thread
  /// that has seen a value finds the same or a later one here.
  typename Atomics::template atomic<std::uint64_t> proof{0};

  /// Writes of the owner before publish() happen before the return of a has_reached() that sees `next`.
  template <class Wake>
  void publish(std::uint32_t next, const Wake& wake) {
    store_and_wake(value, waiters, next, wake);
  }
  bool has_reached(std::uint32_t wanted) const {
    return farandole::has_reached(value.load(std::memory_order_acquire), wanted);
  }
};

/// Sleeps once on `word` unless `ready()` returns true. `sleep(value)` must sleep while the word has this
/// value. Returns the result of `sleep`, or `awake`.
template <class Atomics, class Word, class Waiters, class Ready, class Sleep, class End>
End announced_sleep(const Word& word, Waiters& waiters, const Ready& ready, const Sleep& sleep, End awake) {
  waiters.fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t value = Atomics::load_low_half(word, std::memory_order_seq_cst);
  const End end = ready() ? awake : sleep(value);
  waiters.fetch_sub(1, std::memory_order_relaxed);
  return end;
}

// ---- bytes that may change while they are read ---------------------------------------------------
//
// A sequence lock (Boehm, MSPC 2012). A word tells whether the bytes are valid. The owner changes the word
// before it changes the bytes, and a reader reads the word again after it has read the bytes. Neither waits
// for the other.

/// Called by the owner after it has changed the word. A reader that reads bytes written after this call does
/// not find the old word when it re-reads the word.
template <class Atomics>
void order_word_before_bytes() {
  Atomics::fence(std::memory_order_release);
}

/// Called by a reader after it has read the bytes. A subsequent read of the word is at least as new as the
/// bytes.
template <class Atomics>
void order_bytes_before_word() {
  Atomics::fence(std::memory_order_acquire);
}

} // namespace farandole
