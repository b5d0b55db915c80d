// How a thread waits for a word in shared memory. Spinning is fast with cores to spare and ruinous without,
// and a sleeper must still see an abort at once; so one policy, decided once from the cores this process may
// use, says how long to look before sleeping, and a sleep watches two words: the shared one and a local one
// (abort, or news).
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace farandole {

/// A number in shared memory that one member raises and others wait for. Its owner makes no system call when
/// nobody sleeps on it. Padded to two cache lines, for neighbours are prefetched in pairs.
struct alignas(128) shared_counter {
  std::atomic<std::uint32_t> value{0};
  std::atomic<std::uint32_t> waiters{0};

  /// Stores `next` and wakes who sleeps.
  void publish(std::uint32_t next);
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == 4);

/// Whether `value` has come to `wanted`, on counters that only grow and may wrap around.
constexpr bool has_reached(std::uint32_t value, std::uint32_t wanted) {
  return static_cast<std::int32_t>(value - wanted) >= 0;
}

/// Wakes every sleeper on a word of shared memory, or of this process only.
void wake_shared(const void* word);
void wake_local(const std::atomic<std::uint32_t>& word);

enum class wait_end : std::uint8_t {
  reached,     ///< what was waited for is there
  noticed,     ///< the local word has changed
  expired,     ///< the deadline has passed
  interrupted, ///< a signal came, or 100 ms went by: look at signals, then wait again (framework threads
               ///< only)
};

/// What a sleep looks at.
struct watched {
  const void* word; ///< 32 bits in shared memory; changes when something happens
  std::atomic<std::uint32_t>&
      waiters; ///< beside it; whoever changes `word` and sees a nonzero count wakes it
  const std::atomic<std::uint32_t>& local; ///< of this process
  std::uint32_t seen;                      ///< waits only while `local` has this value
  std::chrono::steady_clock::time_point deadline;
  bool interruptible = false;
};

/// Whether giving way pays. It is the quickest way to meet others who do the same, and the slowest where
/// strangers have work: they run for a whole time slice, while a sleeper would have been woken at once. So a
/// time slice lost makes the next waits sleep without giving way, twice as many each time in a row.
class yield_ledger {
public:
  constexpr yield_ledger() = default;
  /// A copy starts afresh.
  constexpr yield_ledger(const yield_ledger&) {}

  /// Asked once a wait.
  bool pays() {
    const auto left = to_skip_.load(std::memory_order_relaxed);
    if (left > 0)
      to_skip_.store(left - 1, std::memory_order_relaxed);
    return left == 0;
  }
  /// How long giving way took, all in all.
  void took(std::chrono::nanoseconds time) {
    if (time < slice_lost) {
      penalty_.store(least_penalty, std::memory_order_relaxed);
      return;
    }
    const auto penalty = penalty_.load(std::memory_order_relaxed);
    to_skip_.store(penalty, std::memory_order_relaxed);
    penalty_.store(std::min(2 * penalty, most_penalty), std::memory_order_relaxed);
  }

private:
  static constexpr std::chrono::microseconds slice_lost{200};
  static constexpr std::uint32_t least_penalty = 64;
  static constexpr std::uint32_t most_penalty = 4096;
  // Threads that share a policy may lose each other's updates: it is only a guess.
  std::atomic<std::uint32_t> to_skip_{0};
  std::atomic<std::uint32_t> penalty_{least_penalty};
};

/// Longest sleep of an interruptible wait.
inline constexpr std::chrono::milliseconds interruptible_sleep{100};

class waiting {
public:
  /// Decides from affinity and cgroup quota, for this many members on the host.
  static waiting decide(unsigned local_members);
  /// Looks for `spin` when positive, otherwise gives way `yields` times, before it sleeps.
  /// `pairs`: whether the kernel may be asked to watch two words at once; found out anyway where it cannot.
  constexpr waiting(std::chrono::nanoseconds spin, unsigned yields, bool pairs = true)
      : spin_(spin), yields_(yields), pairs_(pairs) {}

  bool spins() const { return spin_.count() > 0; }

  /// Waits until `ready()`, a cheap look at shared memory that turns true only together with a change of
  /// `what.word`. `reached` wins when several ends have come.
  template <class Ready>
  wait_end until(const watched& what, const Ready& ready) const {
    if (ready() || look(what, ready))
      return wait_end::reached;
    for (;;) {
      // Announce, then look once more, then sleep: a publisher stores, then looks for sleepers.
      what.waiters.fetch_add(1, std::memory_order_seq_cst);
      const std::uint32_t value = load(what.word);
      wait_end end = wait_end::reached;
      if (!ready())
        end = sleep(what, value);
      what.waiters.fetch_sub(1, std::memory_order_relaxed);
      if (ready())
        return wait_end::reached;
      if (end != wait_end::reached)
        return end;
    }
  }

  /// The wait of a lane: until `counter` has come to `wanted`; `noticed` means aborted.
  wait_end until_reached(shared_counter& counter, std::uint32_t wanted,
                         const std::atomic<std::uint32_t>& abort,
                         std::chrono::steady_clock::time_point deadline) const {
    return until(watched{&counter.value, counter.waiters, abort, 0, deadline},
                 [&] { return has_reached(counter.value.load(std::memory_order_acquire), wanted); });
  }

private:
  static std::uint32_t load(const void* word);
  /// One sleep while `word` holds `value`. `reached` stands for "look again".
  wait_end sleep(const watched& what, std::uint32_t value) const;
  static void relax();

  /// The look before the sleep; leaves early when the local word changes.
  template <class Ready>
  bool look(const watched& what, const Ready& ready) const {
    const auto noticed = [&] { return what.local.load(std::memory_order_acquire) != what.seen; };
    if (!spins()) {
      if (yields_ == 0 || !ledger_.pays())
        return false;
      const auto start = std::chrono::steady_clock::now();
      bool found = false;
      for (unsigned i = 0; i < yields_ && !found && !noticed(); ++i) {
        sched_yield();
        found = ready();
      }
      ledger_.took(std::chrono::steady_clock::now() - start);
      return found;
    }
    const auto end = std::chrono::steady_clock::now() + spin_;
    do {
      for (int i = 0; i < 64; ++i) {
        if (ready())
          return true;
        relax();
      }
    } while (!noticed() && std::chrono::steady_clock::now() < end);
    return false;
  }

  std::chrono::nanoseconds spin_;
  unsigned yields_;
  bool pairs_;
  mutable yield_ledger ledger_;
};

} // namespace farandole
