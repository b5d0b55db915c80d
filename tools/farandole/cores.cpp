#include "tools/farandole/cores.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <vector>

namespace farandole {

namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::optional<std::int64_t> number_at(std::string_view& text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos)
    return std::nullopt;
  text.remove_prefix(begin);
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc())
    return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(result.ptr - text.data()));
  return value;
}

std::int32_t cores_of_affinity() {
  // The kernel refuses a mask that is too short for the machine, so longer ones are tried.
  for (std::size_t count = CPU_SETSIZE; count <= (1U << 20U); count *= 2) {
    std::vector<unsigned long> mask(count / (8 * sizeof(unsigned long)));
    auto* set = reinterpret_cast<cpu_set_t*>(mask.data());
    const auto bytes = mask.size() * sizeof(unsigned long);
    if (::sched_getaffinity(0, bytes, set) == 0)
      return std::max(1, static_cast<std::int32_t>(CPU_COUNT_S(bytes, set)));
  }
  return std::max(1, static_cast<std::int32_t>(::sysconf(_SC_NPROCESSORS_ONLN)));
}

/// The path that /proc/self/cgroup gives for a controller of cgroup v1, or for cgroup v2 ("").
std::string cgroup_path(const std::string& controller) {
  std::ifstream lines("/proc/self/cgroup"); // "4:cpu,cpuacct:/path", "0::/path"
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos)
      continue;
    const auto controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers == ",,"
            ? controller.empty()
            : !controller.empty() && controllers.find("," + controller + ",") != std::string::npos)
      return line.substr(second + 1);
  }
  return "/";
}

/// The smallest quota of a cgroup and of those above it. In a container the path may be the host's, which
/// does not exist there; then the root is the container's own.
std::optional<std::int32_t> cores_of_cgroups() {
  std::optional<std::int32_t> fewest;
  const auto take = [&](const std::string& quota) {
    if (const auto cores = cores_of_quota(quota))
      fewest = std::min(fewest.value_or(std::numeric_limits<std::int32_t>::max()), *cores);
  };
  const auto climb = [&](const fs::path& root, const std::string& path, const auto& look) {
    for (auto at = fs::path(path).relative_path(); !at.empty(); at = at.parent_path())
      look(root / at);
    look(root);
  };
  climb("/sys/fs/cgroup", cgroup_path(""),
        [&](const fs::path& folder) { take(content_of(folder / "cpu.max")); });
  climb("/sys/fs/cgroup/cpu", cgroup_path("cpu"), [&](const fs::path& folder) {
    take(content_of(folder / "cpu.cfs_quota_us") + " " + content_of(folder / "cpu.cfs_period_us"));
  });
  return fewest;
}

} // namespace

std::optional<std::int32_t> cores_of_quota(std::string_view cpu_max) {
  const auto quota = number_at(cpu_max);
  const auto period = quota ? number_at(cpu_max) : std::nullopt;
  if (!quota || !period || *quota <= 0 || *period <= 0)
    return std::nullopt; // "max 100000", -1 of cgroup v1, or no such file
  const auto cores = *quota / *period + (*quota % *period > 0 ? 1 : 0);
  return static_cast<std::int32_t>(std::min<std::int64_t>(cores, std::numeric_limits<std::int32_t>::max()));
}

std::int32_t usable_cores() {
  const auto cores = cores_of_affinity();
  return std::max(1, std::min(cores, cores_of_cgroups().value_or(cores)));
}

std::int32_t threads_of_each(std::int32_t cores, std::int32_t workers) {
  return std::max(1, cores / std::max(1, workers));
}

std::string crowding_notice(std::int32_t cores, std::int32_t workers, bool threads_are_set) {
  if (threads_are_set || workers <= cores)
    return {};
  return std::to_string(workers) + " workers share " + std::to_string(cores) +
         (cores == 1 ? " core" : " cores") +
         ", and OMP_NUM_THREADS is not set, so each may start a thread for every core. Set "
         "OMP_NUM_THREADS=1, or "
         "let --set-omp-num-threads do it.";
}

} // namespace farandole
