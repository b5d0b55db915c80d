#include "collectives/paths/waiting/cores.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

namespace farandole {

namespace {

std::string read_file(const std::string& name) {
  std::ifstream file(name);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Where the calling thread may run, as the kernel's mask; empty when it cannot be told.
class affinity {
public:
  static affinity own() {
    // Machines may have more cores than cpu_set_t: ask with larger sets until one is large enough.
    affinity asked;
    for (std::size_t words = 16; words <= 4096; words *= 2) {
      asked.mask_.assign(words, 0);
      if (sched_getaffinity(0, asked.bytes(), asked.set()) == 0)
        return asked;
    }
    asked.mask_.clear();
    return asked;
  }

  int count() const { return CPU_COUNT_S(bytes(), set()); }
  void remove(int core) { CPU_CLR_S(static_cast<std::size_t>(core), bytes(), set()); }
  bool apply() const { return sched_setaffinity(0, bytes(), set()) == 0; }

private:
  std::size_t bytes() const { return mask_.size() * sizeof(unsigned long); }
  const cpu_set_t* set() const { return reinterpret_cast<const cpu_set_t*>(mask_.data()); }
  cpu_set_t* set() { return reinterpret_cast<cpu_set_t*>(mask_.data()); }

  std::vector<unsigned long> mask_;
};

double cores_of_affinity() {
  const int count = affinity::own().count();
  return count > 0 ? count : static_cast<double>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

/// The path of this process' cgroup within the unified hierarchy: the line "0::/…".
std::string own_cgroup() {
  std::ifstream lines("/proc/self/cgroup");
  for (std::string line; std::getline(lines, line);)
    if (line.rfind("0::", 0) == 0)
      return line.substr(3);
  return "/";
}

} // namespace

double cores_granted(const std::string& cpu_max) {
  char* rest = nullptr;
  const double quota = std::strtod(cpu_max.c_str(), &rest);
  if (rest == cpu_max.c_str())
    return 0; // "max", or no such file
  const double period = std::strtod(rest, nullptr);
  return quota > 0 && period > 0 ? std::max(quota / period, 0.01) : 0;
}

double usable_cores() {
  double cores = std::max(cores_of_affinity(), 1.0);
  const auto apply = [&](double granted) {
    if (granted > 0)
      cores = std::min(cores, granted);
  };
  // Every ancestor may set a limit; inside a container the path may not exist, and its own root speaks.
  for (std::string group = own_cgroup();; group.resize(group.rfind('/'))) {
    apply(cores_granted(read_file("/sys/fs/cgroup" + group + "/cpu.max")));
    if (group.rfind('/') == std::string::npos)
      break;
  }
  apply(cores_granted(read_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") + " " +
                      read_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us")));
  return cores;
}

void move_to_another_core(std::span<const int> taken) {
  const auto allowed = affinity::own();
  auto elsewhere = allowed;
  const int here = sched_getcpu();
  if (here < 0)
    return;
  elsewhere.remove(here);
  for (const int core : taken)
    elsewhere.remove(core);
  if (elsewhere.count() > 0 && elsewhere.apply())
    allowed.apply();
}

} // namespace farandole
