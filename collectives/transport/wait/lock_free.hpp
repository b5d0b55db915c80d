// The steps of the lock-free protocols between members, and which memory order each needs. They are templates
// over the atomics, because tests/models compiles them against atomics of its own, explores every execution
// that the memory model allows, and shows that each weaker order breaks a protocol. Whoever changes an order
// here runs models_test.
#pragma once

#include <atomic>
#include <cstdint>

namespace farandole {

/// The atomics of this machine; model_atomics in tests/models is the other argument of the templates.
struct machine_atomics {
  template <class T>
  using atomic = std::atomic<T>;
  static void fence(std::memory_order order) { std::atomic_thread_fence(order); }
  /// The 32 bits of a word that a sleeper watches: of a word of 64 bits the low half.
  static std::uint32_t load_low_half(const void* word, std::memory_order) {
    return __atomic_load_n(static_cast<const std::uint32_t*>(word), __ATOMIC_SEQ_CST);
  }
};

// ---- sleeping until a word changes ---------------------------------------------------------------
//
// Dekker's exclusion: the publisher stores, then looks for sleepers; a sleeper announces itself, then looks
// at the word. Of these four accesses all are sequentially consistent, so at least one of the two sees the
// other. A sleeper that looked too early is woken; the kernel compares the word once more, and does not let
// it sleep on a value that has changed, but its own barriers are nothing that futex(2) promises.

/// Stores `next` and wakes who sleeps on the word. No system call when nobody does.
template <class Word, class Waiters, class Value, class Wake>
void store_and_wake(Word& word, Waiters& waiters, Value next, const Wake& wake) {
  word.store(next, std::memory_order_seq_cst);
  if (waiters.load(std::memory_order_seq_cst) != 0)
    wake();
}

/// Whether `value` has come to `wanted`, on counters that only grow and may wrap around.
constexpr bool has_reached(std::uint32_t value, std::uint32_t wanted) {
  return static_cast<std::int32_t>(value - wanted) >= 0;
}

/// A number that its owner raises and others wait for. Padded to two cache lines, for neighbours are
/// prefetched in pairs.
template <class Atomics>
struct alignas(128) basic_shared_counter {
  typename Atomics::template atomic<std::uint32_t> value{0};
  typename Atomics::template atomic<std::uint32_t> waiters{0};
  /// The number, and its checksum in the upper half. Members store it before `value` (shared_counter), so
  /// whoever has seen a value finds here the same or a later one.
  typename Atomics::template atomic<std::uint64_t> proof{0};

  /// All that its owner has written before is there for whoever has_reached() tells so.
  template <class Wake>
  void publish(std::uint32_t next, const Wake& wake) {
    store_and_wake(value, waiters, next, wake);
  }
  bool has_reached(std::uint32_t wanted) const {
    return farandole::has_reached(value.load(std::memory_order_acquire), wanted);
  }
};

/// One sleep on `word`, unless `ready()`: `sleep(value)` sleeps while the word has this value. Returns what
/// that returned, or `awake`.
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
// A sequence lock (Boehm, MSPC 2012): a word says whether bytes may be believed. Their owner changes the word
// before it changes the bytes; a reader looks at the word again after it has read. Neither waits for the
// other.

/// The owner has changed the word; whatever it writes into the bytes from here on is not read under the old
/// word.
template <class Atomics>
void order_word_before_bytes() {
  Atomics::fence(std::memory_order_release);
}

/// The reader has read the bytes; the word, when it is read from here on, is at least as new as they were.
template <class Atomics>
void order_bytes_before_word() {
  Atomics::fence(std::memory_order_acquire);
}

} // namespace farandole
