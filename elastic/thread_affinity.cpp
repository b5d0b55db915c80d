#include "elastic/thread_affinity.hpp"

#include <algorithm>
#include <charconv>
#include <string>

#include "messages/settings/settings.hpp"

namespace farandole {

namespace {

/// "0-3,8"
std::string shown(std::span<const int> cores) {
  std::string text;
  for (std::size_t first = 0; first < cores.size();) {
    auto last = first;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1)
      ++last;
    text += (text.empty() ? "" : ",") + std::to_string(cores[first]);
    if (last > first)
      text += "-" + std::to_string(cores[last]);
    first = last + 1;
  }
  return text;
}

error nothing_pinned(const std::string& problem, const member& self, const std::string& remedy) {
  return {error_kind::invalid_argument, problem + ", so no thread of local rank " +
                                            std::to_string(self.local_rank) + " on " + self.host_name +
                                            " is pinned to a core; " + remedy};
}

} // namespace

std::optional<std::vector<int>> parse_core_list(std::string_view text) {
  std::vector<int> cores;
  for (;;) {
    const auto comma = text.find(',');
    const auto entry = text.substr(0, comma);
    int core = 0;
    const auto [end, problem] = std::from_chars(entry.data(), entry.data() + entry.size(), core);
    if (problem != std::errc{} || end != entry.data() + entry.size() || core < 0 || entry.front() == '-')
      return std::nullopt;
    cores.push_back(core);
    if (comma == std::string_view::npos)
      return cores;
    text.remove_prefix(comma + 1);
  }
}

expected<int> choose_core(const settings& values, const member& self, std::span<const int> allowed) {
  const auto cited = values.cited(setting::thread_affinity);
  const auto cores = parse_core_list(values.text(setting::thread_affinity));
  if (!cores)
    return nothing_pinned(cited + " is no comma-separated list of core ids", self,
                          "list one core id for each rank of the host, as in 0,1");
  const auto ranks = static_cast<std::size_t>(std::max(self.local_size, self.local_rank + 1));
  if (cores->size() < ranks)
    return nothing_pinned(cited + " has " + std::to_string(cores->size()) +
                              (cores->size() == 1 ? " entry" : " entries") + " for " + std::to_string(ranks) +
                              " ranks of the host",
                          self, "list one core id for each rank of the host");
  const int core = (*cores)[static_cast<std::size_t>(self.local_rank)];
  if (!std::binary_search(allowed.begin(), allowed.end(), core))
    return nothing_pinned(cited + " names core " + std::to_string(core) +
                              ", which this process may not use (it may use " +
                              (allowed.empty() ? "no known core" : shown(allowed)) + ")",
                          self,
                          "list cores of that set, or start the job with a wider affinity (taskset, the "
                          "batch system, or the container)");
  return core;
}

} // namespace farandole
