#include "actors/submission/phase_word.hpp"

#include <cassert>
#include <climits>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace farandole {

namespace {

// The value of the callback slot once the operation is settled.
std::function<void()>* const called = reinterpret_cast<std::function<void()>*>(1);

long futex(const std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(&word), operation | FUTEX_PRIVATE_FLAG,
                 value, timeout, nullptr, FUTEX_BITSET_MATCH_ANY);
}

} // namespace

phase_word::~phase_word() {
  drop_callback();
}

void phase_word::drop_callback() {
  if (auto* callback = callback_.load(std::memory_order_relaxed); callback != called)
    delete callback;
}

void phase_word::restart() {
  drop_callback();
  callback_.store(nullptr, std::memory_order_relaxed);
  begin(phase::queued);
}

bool phase_word::advance(phase from, phase to) {
  auto observed = static_cast<std::uint32_t>(from);
  if (!word_.compare_exchange_strong(observed, static_cast<std::uint32_t>(to), std::memory_order_seq_cst))
    return false;
  // A claim is always followed by publish_settled(), which wakes the waiters.
  if (to != phase::claimed && waiters_.load(std::memory_order_seq_cst) != 0)
    futex(word_, FUTEX_WAKE, INT_MAX, nullptr);
  return true;
}

// Waiters may drop their references as soon as they see the word; the reference of the caller keeps *this alive.
void phase_word::publish_settled() {
  word_.store(static_cast<std::uint32_t>(phase::settled), std::memory_order_seq_cst);
  if (waiters_.load(std::memory_order_seq_cst) != 0)
    futex(word_, FUTEX_WAKE, INT_MAX, nullptr);
  auto* callback = callback_.exchange(called, std::memory_order_acq_rel);
  if (callback && callback != called) {
    (*callback)();
    delete callback;
  }
}

void phase_word::wait_for_change(phase current, std::chrono::steady_clock::time_point deadline) const {
  if (current == phase::settled)
    return; // the last phase: no change follows, so no thread would wake this one
  auto since_epoch =
      std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch()).count();
  timespec absolute{since_epoch / 1'000'000'000, since_epoch % 1'000'000'000};
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  if (word_.load(std::memory_order_seq_cst) == static_cast<std::uint32_t>(current))
    futex(word_, FUTEX_WAIT_BITSET, static_cast<std::uint32_t>(current), &absolute);
  waiters_.fetch_sub(1, std::memory_order_relaxed);
}

void phase_word::on_settled(std::function<void()> callback) {
  // The settling thread may not have reached the callback slot yet. The callback runs here as soon as the phase is
  // seen as settled.
  if (settled()) {
    callback_.store(called, std::memory_order_release);
    callback();
    return;
  }
  auto* action = new std::function<void()>(std::move(callback));
  std::function<void()>* none = nullptr;
  if (callback_.compare_exchange_strong(none, action, std::memory_order_acq_rel))
    return;
  assert(none == called && "at most one callback");
  (*action)();
  delete action;
}

} // namespace farandole
