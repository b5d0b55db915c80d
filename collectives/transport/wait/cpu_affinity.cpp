#include "collectives/transport/wait/cpu_affinity.hpp"

#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <climits>

namespace farandole {

namespace {

constexpr std::size_t word_bits = sizeof(unsigned long) * CHAR_BIT;

} // namespace

cpu_affinity cpu_affinity::of_thread(pid_t thread) {
  // A machine may have more cores than cpu_set_t holds, so try larger sets until one is large enough.
  cpu_affinity asked;
  for (std::size_t words = 16; words <= 4096; words *= 2) {
    asked.mask_.assign(words, 0);
    if (sched_getaffinity(thread, asked.bytes(), asked.set()) == 0)
      return asked;
  }
  asked.mask_.clear();
  return asked;
}

cpu_affinity cpu_affinity::of_calling_thread() {
  return of_thread(0);
}

// The id of the main thread is that of the process.
cpu_affinity cpu_affinity::of_process() {
  return of_thread(getpid());
}

cpu_affinity cpu_affinity::of_core(int core) {
  assert(core >= 0);
  const auto bit = static_cast<std::size_t>(core);
  cpu_affinity single;
  single.mask_.assign(bit / word_bits + 1, 0);
  CPU_SET_S(bit, single.bytes(), single.set());
  return single;
}

std::vector<int> cpu_affinity::cores() const {
  std::vector<int> numbers;
  for (std::size_t bit = 0; bit < mask_.size() * word_bits; ++bit)
    if (CPU_ISSET_S(bit, bytes(), set()))
      numbers.push_back(static_cast<int>(bit));
  return numbers;
}

int cpu_affinity::apply() const {
  return sched_setaffinity(0, bytes(), set()) == 0 ? 0 : errno;
}

} // namespace farandole
