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

/// Where the kernel cannot watch two words, a sleep on one must end soon to look at the other.
constexpr std::chrono::milliseconds blind_sleep{2};

timespec to_timespec(std::chrono::nanoseconds value) {
  const auto count = std::max<std::int64_t>(value.count(), 0);
  return {static_cast<time_t>(count / 1'000'000'000), static_cast<long>(count % 1'000'000'000)};
}

void wake(const void* word, int flags) {
  syscall(SYS_futex, word, FUTEX_WAKE | flags, INT_MAX, nullptr, nullptr, 0);
}

/// Kernels before 5.16 and some sandboxes lack futex_waitv; found out once.
std::atomic<bool> pairs_known_missing{false};

/// errno, 0 when woken. `until` is absolute.
int sleep_on_pair(const watched& watched_process, std::uint32_t value, steady_clock::time_point deadline) {
  futex_waitv words[2] = {};
  words[0].val = value;
  words[0].uaddr = reinterpret_cast<std::uintptr_t>(watched_process.word);
  words[0].flags = FUTEX_32;
  words[1].val = watched_process.observed;
  words[1].uaddr = reinterpret_cast<std::uintptr_t>(&watched_process.local);
  words[1].flags = FUTEX_32 | FUTEX_PRIVATE_FLAG;
  const timespec limit = to_timespec(deadline.time_since_epoch());
  return syscall(SYS_futex_waitv, words, 2, 0, &limit, CLOCK_MONOTONIC) < 0 ? errno : 0;
}

/// The same by short sleeps on one word, with a look at the other between them.
int sleep_on_one(const watched& watched_process, std::uint32_t value, steady_clock::time_point deadline) {
  for (auto current_time = steady_clock::now(); current_time < deadline; current_time = steady_clock::now()) {
    const timespec limit =
        to_timespec(std::min<std::chrono::nanoseconds>(deadline - current_time, blind_sleep));
    const bool woken = syscall(SYS_futex, watched_process.word, FUTEX_WAIT, value, &limit, nullptr, 0) == 0;
    if (woken || errno != ETIMEDOUT)
      return woken ? 0 : errno;
    if (watched_process.local.load(std::memory_order_acquire) != watched_process.observed)
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

// As long as a sleeper takes to wake on another core: who looks for less meets peers that have just fallen
// asleep, falls asleep in turn, and both pay for a wake-up in every round. A look by giving way costs nobody
// anything, for a core that somebody else wants is handed over.
futex_wait futex_wait::decide(unsigned local_members) {
  const double cores = usable_cores();
  const bool to_spare = cores >= 2.0 * local_members;
  // Neighbours have other numbers, so that they do not move together.
  const auto meetings =
      yield_policy::least_meetings + static_cast<std::uint32_t>(getpid()) % yield_policy::least_meetings;
  return {to_spare ? look::spinning : look::giving_way, wake_up_time,
          yield_policy(cores >= local_members, meetings)};
}

void futex_wait::relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

wait_end futex_wait::sleep(const watched& watched_process, std::uint32_t value) const {
  // Who changes it may look for sleepers before it wakes: the same exclusion as for the shared word.
  if (watched_process.local.load(std::memory_order_seq_cst) != watched_process.observed)
    return wait_end::noticed;
  const auto current_time = steady_clock::now();
  if (current_time >= watched_process.deadline)
    return wait_end::expired;
  const auto deadline = watched_process.interruptible
                            ? std::min(watched_process.deadline, current_time + interruptible_sleep)
                            : watched_process.deadline;
  int problem = ENOSYS;
  if (pairs_ && !pairs_known_missing.load(std::memory_order_relaxed)) {
    problem = sleep_on_pair(watched_process, value, deadline);
    if (problem == ENOSYS || problem == EPERM)
      pairs_known_missing.store(true, std::memory_order_relaxed);
  }
  if (problem == ENOSYS || problem == EPERM)
    problem = sleep_on_one(watched_process, value, deadline);
  if (watched_process.local.load(std::memory_order_acquire) != watched_process.observed)
    return wait_end::noticed;
  if (problem == ETIMEDOUT)
    return deadline == watched_process.deadline ? wait_end::expired : wait_end::interrupted;
  if (problem == EINTR && watched_process.interruptible)
    return wait_end::interrupted;
  return wait_end::reached; // woken, or the word had changed: look again
}

} // namespace farandole
