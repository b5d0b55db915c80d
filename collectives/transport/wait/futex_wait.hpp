// Waits for a word in shared memory. Spinning is fast if there are spare cores and ruinous if there are none.
// A sleeping thread must still see an abort at once. Therefore one policy, which each process chooses once
// from the cores that it may use, decides how long a thread polls before it sleeps, and a sleep watches two
// words: the shared one and a local one (an abort word, or a counter of news).
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "collectives/transport/wait/core_placement.hpp"
#include "collectives/transport/wait/lock_free.hpp"
#include "collectives/transport/wait/word_mix.hpp"
#include "collectives/transport/wait/yield_policy.hpp"

namespace farandole {

/// A counter in shared memory that one member increases and others wait for. The owner makes no system call
/// if no thread sleeps on it.
struct shared_counter : basic_shared_counter<machine_atomics> {
  /// Stores `next` and wakes all sleeping threads.
  void publish(std::uint32_t next);
  /// Whether the owner has published `wanted` or a later number, according to the checksummed `proof`. False
  /// if only `value` says so because another process has overwritten it.
  bool proves(std::uint32_t wanted) const;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == 4);

inline bool shared_counter::proves(std::uint32_t wanted) const {
  const std::uint64_t observed = proof.load(std::memory_order_acquire);
  const auto number = static_cast<std::uint32_t>(observed);
  return observed >> 32 == mix_word(number) && farandole::has_reached(number, wanted);
}

/// Wakes all threads that sleep on a word of shared memory, or on a word of this process only.
void wake_shared(const void* word);
void wake_local(const std::atomic<std::uint32_t>& word);

enum class wait_end : std::uint8_t {
  reached,     ///< the awaited condition holds
  noticed,     ///< the local word has changed
  expired,     ///< the deadline has passed
  interrupted, ///< by a signal, or after 100 ms: handle signals, then wait again (framework threads
               ///< only)
};

/// The words and limits of a sleep.
struct watched {
  const void* word; ///< 32 bits in shared memory; changes when something happens
  std::atomic<std::uint32_t>&
      waiters; ///< sleeping threads; a thread that changes `word` wakes them if this is not 0
  const std::atomic<std::uint32_t>& local; ///< of this process
  std::uint32_t observed;                  ///< the wait lasts only while `local` has this value
  std::chrono::steady_clock::time_point deadline;
  bool interruptible = false;
};

/// Maximum duration of one sleep in an interruptible wait.
inline constexpr std::chrono::milliseconds interruptible_sleep{100};

class futex_wait {
public:
  /// Chooses a policy from the affinity and the cgroup quota, for this number of members on the host.
  static futex_wait decide(unsigned local_members);
  /// How a thread polls before it sleeps: with a pause instruction, or by sched_yield().
  enum class polling : std::uint8_t { spinning, yielding };
  /// `patience`: how long a thread polls. `policy`: the statistics on whether yielding pays.
  /// `pairs`: whether to use futex_waitv; if the kernel lacks it, this is detected in any case.
  constexpr futex_wait(polling how_to_poll, std::chrono::nanoseconds patience, const yield_policy& policy,
                       bool pairs = true)
      : polling_(how_to_poll), patience_(patience), pairs_(pairs), yield_policy_(policy) {}

  bool spins() const { return polling_ == polling::spinning; }

  /// Waits until `ready()` returns true. `ready()` must be a cheap test of shared memory that becomes true
  /// only together with a change of the watched word. If several ends apply, `reached` takes precedence.
  /// `patience`: minimum time to poll before sleeping, if longer than the policy's. Use it while peers move
  /// so many bytes that a time slice lost to one of them costs nothing.
  template <class Ready>
  wait_end until(const watched& watch, const Ready& ready, std::chrono::nanoseconds patience = {}) const {
    if (ready() || found(watch, ready, std::max(patience, patience_)))
      return wait_end::reached;
    for (;;) {
      const auto end = announced_sleep<machine_atomics>(
          watch.word, watch.waiters, ready, [&](std::uint32_t value) { return sleep(watch, value); },
          wait_end::reached);
      if (ready())
        return wait_end::reached;
      if (end != wait_end::reached)
        return end;
    }
  }

  /// The wait of a lane until `counter` has reached `wanted`. `noticed` means that it was aborted.
  wait_end until_reached(shared_counter& counter, std::uint32_t wanted,
                         const std::atomic<std::uint32_t>& abort,
                         std::chrono::steady_clock::time_point deadline) const {
    return until(watched{&counter.value, counter.waiters, abort, 0, deadline},
                 [&] { return counter.has_reached(wanted); });
  }

private:
  /// Sleeps once while `word` holds `value`. Returns `reached` if the caller must test `ready()` again.
  wait_end sleep(const watched& watch, std::uint32_t value) const;
  static void relax();

  /// Polls before a sleep. Returns early when the local word changes.
  template <class Ready>
  bool found(const watched& watch, const Ready& ready, std::chrono::nanoseconds patience) const {
    using clock = std::chrono::steady_clock;
    const bool learns = !spins() && patience == patience_;
    if (patience.count() == 0 || (learns && !yield_policy_.pays()))
      return false;
    const auto start = clock::now();
    yield_policy::report report;
    while (!report.found && report.all < patience &&
           watch.local.load(std::memory_order_acquire) == watch.observed) {
      if (spins())
        report.found = relax_until(ready);
      else {
        sched_yield();
        report.found = ready();
      }
      const auto before = report.all;
      report.all = clock::now() - start;
      report.longest = std::max(report.longest, report.all - before);
    }
    if (learns && yield_policy_.saw(report) == yield_policy::advice::move)
      move_to_another_core();
    return report.found;
  }

  template <class Ready>
  static bool relax_until(const Ready& ready) {
    for (int i = 0; i < 64; ++i) {
      if (ready())
        return true;
      relax();
    }
    return false;
  }

  polling polling_;
  std::chrono::nanoseconds patience_;
  bool pairs_;
  mutable yield_policy yield_policy_;
};

} // namespace farandole
