// The phase of an operation in flight: one atomic word by which its threads agree. Changes are sequentially
// consistent: a waiter first increments the count of waiters and then reads the word; a thread that changes the word
// reads the count afterwards. So one of the two sees the other, and no wake-up is lost.
//
//   on_fast_path   it takes part in a round of the fast path
//     ──(all cells are published, and a framework thread claims it)──▶ claimed ──▶ settled
//     ──(a thread continues the collective that callers run)──▶ moving
//        ──(it would have to wait)──▶ on_fast_path
//        ──(it is done, or has failed and no set is left to end for it)──▶ claimed
//     ──(this member or another one gives the round up, so it goes to the leader)──▶ queued
//   on_fast_path, moving ──(a member has given the round up, or failed; the notice is on the way)──▶ stranded
//   stranded ──▶ queued, when it goes to the leader; ──▶ claimed, when the generation ends
//   queued ──(the lane, or the loop when it fails before it was started)──▶ claimed ──▶ settled
//
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

namespace farandole {

enum class phase : std::uint32_t {
  queued = 0,
  settled = 1,
  on_fast_path = 2,
  claimed = 3,
  moving = 4,
  stranded = 5
};

/// Whether an operation in this phase takes part in a round on the fast path.
constexpr bool is_on_fast_path(phase current) {
  return current == phase::on_fast_path || current == phase::moving || current == phase::stranded;
}

class phase_word {
public:
  phase_word() = default;
  phase_word(const phase_word&) = delete;
  phase_word& operator=(const phase_word&) = delete;
  ~phase_word();

  phase now() const { return static_cast<phase>(word_.load(std::memory_order_acquire)); }
  bool settled() const { return now() == phase::settled; }
  const std::atomic<std::uint32_t>& word() const { return word_; }

  /// Moves from one phase to another if it is there; wakes waiters when it did.
  bool advance(phase from, phase to);

  /// Waits until the phase differs from `current`, a signal arrives, or `deadline` passes; returns at once if
  /// settled. Spurious returns are allowed.
  void wait_for_change(phase current, std::chrono::steady_clock::time_point deadline) const;

  /// While a watcher lives, every change of phase wakes the threads that sleep on word() by other means than
  /// wait_for_change() (futex_waitv, together with a word of shared memory).
  class watcher {
  public:
    explicit watcher(const phase_word& watched) : watched_(watched) {
      watched_.waiters_.fetch_add(1, std::memory_order_seq_cst);
    }
    watcher(const watcher&) = delete;
    watcher& operator=(const watcher&) = delete;
    ~watcher() { watched_.waiters_.fetch_sub(1, std::memory_order_relaxed); }

  private:
    const phase_word& watched_;
  };

  /// See handle::on_settled. At most one callback.
  void on_settled(std::function<void()> callback);

protected:
  /// Resets the phase to `queued` and drops the callback. Only for the sole owner.
  void restart();
  /// Sets the first phase, before the operation is shared.
  void begin(phase first) { word_.store(static_cast<std::uint32_t>(first), std::memory_order_relaxed); }
  /// Publishes `settled`, wakes the waiters, runs the callback.
  void publish_settled();
  bool settled_for_all() const {
    return word_.load(std::memory_order_seq_cst) == static_cast<std::uint32_t>(phase::settled);
  }

private:
  void drop_callback();

  std::atomic<std::uint32_t> word_{0};
  mutable std::atomic<std::uint32_t> waiters_{0};
  std::atomic<std::function<void()>*> callback_{nullptr};
};

} // namespace farandole
