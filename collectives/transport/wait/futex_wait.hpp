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

#include "collectives/transport/wait/core_placement.hpp"
#include "collectives/transport/wait/lock_free.hpp"
#include "collectives/transport/wait/word_mix.hpp"
#include "collectives/transport/wait/yield_policy.hpp"

namespace farandole {

/// A number in shared memory that one member raises and others wait for. Its owner makes no system call when
/// nobody sleeps on it.
struct shared_counter : basic_shared_counter<machine_atomics> {
  /// Stores `next` and wakes who sleeps.
  void publish(std::uint32_t next);
  /// Whether its owner has published `wanted` or a later number. False when `value` says so and another
  /// process has written it.
  bool proves(std::uint32_t wanted) const;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(std::atomic<std::uint32_t>) == 4);

inline bool shared_counter::proves(std::uint32_t wanted) const {
  const std::uint64_t observed = proof.load(std::memory_order_acquire);
  const auto number = static_cast<std::uint32_t>(observed);
  return observed >> 32 == mix_word(number) && farandole::has_reached(number, wanted);
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
  std::uint32_t observed;                  ///< waits only while `local` has this value
  std::chrono::steady_clock::time_point deadline;
  bool interruptible = false;
};

/// Longest sleep of an interruptible wait.
inline constexpr std::chrono::milliseconds interruptible_sleep{100};

class futex_wait {
public:
  /// Decides from affinity and cgroup quota, for this many members on the host.
  static futex_wait decide(unsigned local_members);
  /// What a thread does while it looks, before it sleeps.
  enum class look : std::uint8_t { spinning, giving_way };
  /// `patience`: how long it looks. `policy`: what it knows about giving way.
  /// `pairs`: whether the kernel may be asked to watch two words at once; found out anyway where it cannot.
  constexpr futex_wait(look inspection, std::chrono::nanoseconds patience, const yield_policy& ledger,
                       bool pairs = true)
      : inspection_(inspection), patience_(patience), pairs_(pairs), ledger_(ledger) {}

  bool spins() const { return inspection_ == look::spinning; }

  /// Waits until `ready()`, a cheap look at shared memory that turns true only together with a change of
  /// `what.word`. `reached` wins when several ends have come.
  /// `patience`: how long it looks before it sleeps, where that should be longer than usual: while peers move
  /// so many bytes that the time slice of one of them is no loss.
  template <class Ready>
  wait_end until(const watched& watched_process, const Ready& ready,
                 std::chrono::nanoseconds patience = {}) const {
    if (ready() || found(watched_process, ready, std::max(patience, patience_)))
      return wait_end::reached;
    for (;;) {
      const auto end = announced_sleep<machine_atomics>(
          watched_process.word, watched_process.waiters, ready,
          [&](std::uint32_t value) { return sleep(watched_process, value); }, wait_end::reached);
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
                 [&] { return counter.has_reached(wanted); });
  }

private:
  /// One sleep while `word` holds `value`. `reached` stands for "look again".
  wait_end sleep(const watched& watched_process, std::uint32_t value) const;
  static void relax();

  /// The look before the sleep; leaves early when the local word changes.
  template <class Ready>
  bool found(const watched& watched_process, const Ready& ready, std::chrono::nanoseconds patience) const {
    using clock = std::chrono::steady_clock;
    const bool learns = !spins() && patience == patience_;
    if (patience.count() == 0 || (learns && !ledger_.pays()))
      return false;
    const auto start = clock::now();
    yield_policy::report report;
    while (!report.found && report.all < patience &&
           watched_process.local.load(std::memory_order_acquire) == watched_process.observed) {
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
    if (learns && ledger_.saw(report) == yield_policy::advice::move)
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

  look inspection_;
  std::chrono::nanoseconds patience_;
  bool pairs_;
  mutable yield_policy ledger_;
};

} // namespace farandole
