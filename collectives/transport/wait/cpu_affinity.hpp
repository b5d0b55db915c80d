// The cores that a thread may run on: a mask that the kernel keeps for each thread. A new thread inherits the mask of
// the thread that starts it.
#pragma once

#include <sched.h>

#include <cstddef>
#include <vector>

namespace farandole {

class cpu_affinity {
public:
  /// The cores of the calling thread. Empty if they cannot be read.
  static cpu_affinity of_calling_thread();
  /// The cores of the main thread, which stand for those of the process: a thread of the runtime may be pinned to one
  /// of them. Empty if they cannot be read.
  static cpu_affinity of_process();
  /// One core, which must not be negative.
  static cpu_affinity of_core(int core);

  int count() const { return CPU_COUNT_S(bytes(), set()); }
  /// In ascending order.
  std::vector<int> cores() const;
  /// Has no effect if the core is not in the mask.
  void remove(int core) { CPU_CLR_S(static_cast<std::size_t>(core), bytes(), set()); }

  /// Limits the calling thread, and the threads that it will start, to these cores. Returns 0 or errno.
  int apply() const;

private:
  static cpu_affinity of_thread(pid_t thread);
  std::size_t bytes() const { return mask_.size() * sizeof(unsigned long); }
  const cpu_set_t* set() const { return reinterpret_cast<const cpu_set_t*>(mask_.data()); }
  cpu_set_t* set() { return reinterpret_cast<cpu_set_t*>(mask_.data()); }

  std::vector<unsigned long> mask_;
};

} // namespace farandole
