#include "actors/door/pending.hpp"

#include <cassert>
#include <climits>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace farandole {

namespace {

// Stands in the callback slot once the operation is settled.
std::function<void()>* const called = reinterpret_cast<std::function<void()>*>(1);

long futex(const std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(&word), operation | FUTEX_PRIVATE_FLAG,
                 value, timeout, nullptr, FUTEX_BITSET_MATCH_ANY);
}

} // namespace

pending::~pending() {
  pending_ptr::adopt(watched);
  auto* callback = callback_.load(std::memory_order_relaxed);
  if (callback != called)
    delete callback;
}

void pending::renew() {
  assert(settled() && !watched && !withdrawal && !change);
  id = 0;
  left.clear();
  next = nullptr;
  collective.reset();
  seat.reset();
  round = 0;
  looked_after.store(false, std::memory_order_relaxed);
  handed_on.store(false, std::memory_order_relaxed);
  problem = {};
  outcome = {};
  owned.reset();
  handles_.store(1, std::memory_order_relaxed);
  dropped_.store(false, std::memory_order_relaxed);
  if (auto* callback = callback_.load(std::memory_order_relaxed); callback != called)
    delete callback;
  callback_.store(nullptr, std::memory_order_relaxed);
  word_.store(static_cast<std::uint32_t>(phase::queued), std::memory_order_relaxed);
}

bool pending::advance(phase from, phase to) {
  auto seen = static_cast<std::uint32_t>(from);
  if (!word_.compare_exchange_strong(seen, static_cast<std::uint32_t>(to), std::memory_order_seq_cst))
    return false;
  // A claim is always followed by a settlement, which wakes.
  if (to != phase::claimed && waiters_.load(std::memory_order_seq_cst) != 0)
    futex(word_, FUTEX_WAKE, INT_MAX, nullptr);
  return true;
}

void pending::settle(error how) {
  assert(!settled());
  problem = std::move(how);
  // Waiters may drop the last reference but one as soon as they see the word; the caller's keeps *this alive.
  word_.store(static_cast<std::uint32_t>(phase::settled), std::memory_order_seq_cst);
  if (waiters_.load(std::memory_order_seq_cst) != 0)
    futex(word_, FUTEX_WAKE, INT_MAX, nullptr);
  auto* callback = callback_.exchange(called, std::memory_order_acq_rel);
  if (callback && callback != called) {
    (*callback)();
    delete callback;
  }
  if (lends && handles_.load(std::memory_order_seq_cst) == 0)
    drop_memory();
}

// The last handle and the settler each look for the other after they have told: one of them sees both.
bool pending::let_go() {
  if (handles_.fetch_sub(1, std::memory_order_seq_cst) != 1)
    return false;
  if (word_.load(std::memory_order_seq_cst) == static_cast<std::uint32_t>(phase::settled))
    drop_memory();
  return true;
}

void pending::drop_memory() {
  if (!dropped_.exchange(true, std::memory_order_relaxed))
    owned.reset();
}

bool pending::claim_and_settle(phase from, error how) {
  if (!advance(from, phase::claimed))
    return false;
  settle(std::move(how));
  return true;
}

void pending::wait_for_change(phase seen, std::chrono::steady_clock::time_point until) const {
  if (seen == phase::settled)
    return; // the last phase: no change will come, and nobody will wake who waits for one
  auto since_epoch = std::chrono::duration_cast<std::chrono::nanoseconds>(until.time_since_epoch()).count();
  timespec absolute{since_epoch / 1'000'000'000, since_epoch % 1'000'000'000};
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  if (word_.load(std::memory_order_seq_cst) == static_cast<std::uint32_t>(seen))
    futex(word_, FUTEX_WAIT_BITSET, static_cast<std::uint32_t>(seen), &absolute);
  waiters_.fetch_sub(1, std::memory_order_relaxed);
}

void pending::on_settled(std::function<void()> callback) {
  // Settled, but its settler may not have come to the slot yet: whoever saw it settled is called at once.
  if (settled()) {
    callback_.store(called, std::memory_order_release);
    callback();
    return;
  }
  auto* mine = new std::function<void()>(std::move(callback));
  std::function<void()>* none = nullptr;
  if (callback_.compare_exchange_strong(none, mine, std::memory_order_acq_rel))
    return;
  assert(none == called && "at most one callback");
  (*mine)();
  delete mine;
}

} // namespace farandole
