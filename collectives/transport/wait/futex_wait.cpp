#include "collectives/transport/wait/futex_wait.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "collectives/transport/wait/core_placement.hpp"

namespace farandole {

using std::chrono::steady_clock;

namespace {

/// If the kernel cannot watch two words, a sleep on one word must be short, so that the other is checked.
constexpr std::chrono::milliseconds blind_sleep{2};

timespec to_timespec(std::chrono::nanoseconds value) {
  const auto count = std::max<std::int64_t>(value.count(), 0);
  return {static_cast<time_t>(count / 1'000'000'000), static_cast<long>(count % 1'000'000'000)};
}

void wake(const void* word, int flags) {
  syscall(SYS_futex, word, FUTEX_WAKE | flags, INT_MAX, nullptr, nullptr, 0);
}

/// Set once futex_waitv has failed: kernels before 5.16 and some sandboxes lack it.
std::atomic<bool> pairs_known_missing{false};

/// Returns errno, or 0 if woken. `deadline` is absolute.
int sleep_on_pair(const watched& watch, std::uint32_t value, steady_clock::time_point deadline) {
  futex_waitv words[2] = {};
  words[0].val = value;
  words[0].uaddr = reinterpret_cast<std::uintptr_t>(watch.word);
  words[0].flags = FUTEX_32;
  words[1].val = watch.observed;
  words[1].uaddr = reinterpret_cast<std::uintptr_t>(&watch.local);
  words[1].flags = FUTEX_32 | FUTEX_PRIVATE_FLAG;
  const timespec limit = to_timespec(deadline.time_since_epoch());
  return syscall(SYS_futex_waitv, words, 2, 0, &limit, CLOCK_MONOTONIC) < 0 ? errno : 0;
}

/// Emulates sleep_on_pair() by short sleeps on one word, and checks the other word between them.
int sleep_on_one(const watched& watch, std::uint32_t value, steady_clock::time_point deadline) {
  for (auto current_time = steady_clock::now(); current_time < deadline; current_time = steady_clock::now()) {
    const timespec limit =
        to_timespec(std::min<std::chrono::nanoseconds>(deadline - current_time, blind_sleep));
    const bool woken = syscall(SYS_futex, watch.word, FUTEX_WAIT, value, &limit, nullptr, 0) == 0;
    if (woken || errno != ETIMEDOUT)
      return woken ? 0 : errno;
    if (watch.local.load(std::memory_order_acquire) != watch.observed)
      return 0;
  }
  return ETIMEDOUT;
}

} // namespace

void wake_shared(const void* word) {
  wake(word, 0);
}
void wake_local(const std::atomic<std::uint32_t>& word) {
  wake(&word, FUTEX_PRIVATE_FLAG);
}

void shared_counter::publish(std::uint32_t next) {
  proof.store(std::uint64_t{mix_word(next)} << 32 | next, std::memory_order_release);
  basic_shared_counter::publish(next, [this] { wake_shared(&value); });
}

// Threads poll for as long as a sleeping thread takes to wake on another core. A thread that polls for less
// time meets peers that have just fallen asleep and falls asleep in turn, and both pay for a wake-up in every
// round. Polling by sched_yield() costs other threads nothing, because it hands the core over to any thread
// that wants it.
futex_wait futex_wait::decide(unsigned local_members) {
  const double cores = usable_cores();
  const bool to_spare = cores >= 2.0 * local_members;
  // Neighbours use different numbers, so that they do not move at the same time.
  const auto meetings =
      yield_policy::least_meetings + static_cast<std::uint32_t>(getpid()) % yield_policy::least_meetings;
  return {to_spare ? polling::spinning : polling::yielding, wake_up_time,
          yield_policy(cores >= local_members, meetings)};
}

void futex_wait::relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

wait_end futex_wait::sleep(const watched& watch, std::uint32_t value) const {
  // A thread that changes the local word may check for sleepers before it wakes them, so this load takes part
  // in the same exclusion (Dekker's, see lock_free.hpp) as the load of the shared word.
  if (watch.local.load(std::memory_order_seq_cst) != watch.observed)
    return wait_end::noticed;
  const auto current_time = steady_clock::now();
  if (current_time >= watch.deadline)
    return wait_end::expired;
  const auto deadline =
      watch.interruptible ? std::min(watch.deadline, current_time + interruptible_sleep) : watch.deadline;
  int problem = ENOSYS;
  if (pairs_ && !pairs_known_missing.load(std::memory_order_relaxed)) {
    problem = sleep_on_pair(watch, value, deadline);
    if (problem == ENOSYS || problem == EPERM)
      pairs_known_missing.store(true, std::memory_order_relaxed);
  }
  if (problem == ENOSYS || problem == EPERM)
    problem = sleep_on_one(watch, value, deadline);
  if (watch.local.load(std::memory_order_acquire) != watch.observed)
    return wait_end::noticed;
  if (problem == ETIMEDOUT)
    return deadline == watch.deadline ? wait_end::expired : wait_end::interrupted;
  if (problem == EINTR && watch.interruptible)
    return wait_end::interrupted;
  return wait_end::reached; // woken, or the word had changed: look again
}

} // namespace farandole
