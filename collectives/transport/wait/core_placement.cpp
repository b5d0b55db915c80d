#include "collectives/transport/wait/core_placement.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "collectives/transport/wait/cpu_affinity.hpp"

namespace farandole {

namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& name) {
  std::ifstream file(name);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

double cores_of_affinity() {
  const int count = cpu_affinity::of_process().count();
  return count > 0 ? count : static_cast<double>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

/// The path of this process in the hierarchy of a cgroup v1 controller, or, if `controller` is empty, in
/// cgroup v2.
std::string cgroup_path(const std::string& controller) {
  std::ifstream lines("/proc/self/cgroup"); // "4:cpu,cpuacct:/path", "0::/path"
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos)
      continue;
    std::string controllers = line.substr(first, second - first);
    controllers += ':';
    std::replace(controllers.begin(), controllers.end(), ',', ':');
    if (controllers.find(':' + controller + ':') != std::string::npos)
      return line.substr(second + 1);
  }
  return "/";
}

/// Calls `look` with the folder of this process's cgroup and with each parent, any of which may set a limit.
/// Inside a container the path may be that of the host, which does not exist there; the root is then the
/// container's own cgroup.
template <class Look>
void climb(const fs::path& root, const std::string& controller, const Look& look) {
  for (auto at = fs::path(cgroup_path(controller)).relative_path(); !at.empty(); at = at.parent_path())
    look(root / at);
  look(root);
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
  climb("/sys/fs/cgroup", "",
        [&](const fs::path& folder) { apply(cores_granted(read_file(folder / "cpu.max"))); });
  climb("/sys/fs/cgroup/cpu", "cpu", [&](const fs::path& folder) {
    apply(cores_granted(read_file(folder / "cpu.cfs_quota_us") + " " +
                        read_file(folder / "cpu.cfs_period_us")));
  });
  return cores;
}

void move_to_another_core(std::span<const int> taken) {
  const auto allowed = cpu_affinity::of_calling_thread();
  auto elsewhere = allowed;
  const int number = sched_getcpu();
  if (number < 0)
    return;
  elsewhere.remove(number);
  for (const int core : taken)
    elsewhere.remove(core);
  if (elsewhere.count() > 0 && elsewhere.apply() == 0)
    allowed.apply();
}

core_placement::core_placement(std::uint32_t members, std::uint32_t rank, double cores)
    : rank_(rank),
      share_(members < 2
                 ? 0
                 : static_cast<std::uint32_t>(std::ceil(members / std::max(1.0, std::floor(cores))))) {}

core_placement::crowd core_placement::crowd_at(int number, std::span<const int> cores) const {
  crowd crowd;
  std::uint32_t before_me = 0;
  std::vector<int> others;
  for (std::uint32_t member = 0; member < cores.size(); ++member) {
    const int core = cores[member];
    if (member == rank_ || core < 0)
      continue;
    before_me += member < rank_ && core == number ? 1 : 0;
    others.push_back(core);
    if (std::count(others.begin(), others.end(), core) == static_cast<std::ptrdiff_t>(share_))
      crowd.full_cores.push_back(core);
  }
  crowd.too_many = share_ > 0 && before_me >= share_;
  return crowd;
}

void core_placement::spread(std::span<const int> cores) const {
  if (const auto crowd = crowd_at(sched_getcpu(), cores); crowd.too_many)
    move_to_another_core(crowd.full_cores);
}

} // namespace farandole
